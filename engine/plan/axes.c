#include "engine/plan/axes.h"
#include "engine/plan/sizes.h"

#include <string.h>

#define MAX_ROWS INT32_MAX    /* upper limit for the rows of an item, because positions are int32_t */
#define MAX_COLUMNS INT32_MAX /* upper limit for columns, so that a value's number of elements cannot overflow */

/* Appends an axis. Returns PLAN_NONE after a failure. */
static int append(struct plan_builder *builder, struct plan_axis axis)
{
    struct plan_axis *place = plan_grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *place);
    if (!place)
        return PLAN_NONE;
    *place = axis;
    return builder->plan->n_axes - 1;
}

static bool equals(const struct plan_axis *a, const struct plan_axis *b)
{
    if (a->kind != b->kind || a->input != b->input)
        return false;
    switch (a->kind) {
    case AXIS_FIXED:
        return a->rows_per_item == b->rows_per_item;
    case AXIS_INPUT:
        return a->input_padding.rows == b->input_padding.rows && a->input_padding.multiple == b->input_padding.multiple;
    case AXIS_PROJECTED:
        return a->projected.k == b->projected.k && a->projected.n == b->projected.n;
    case AXIS_WINDOW:
        return memcmp(&a->window, &b->window, sizeof a->window) == 0;
    case AXIS_PADDED:
        return a->padded.of == b->padded.of && a->padded.by.rows == b->padded.by.rows &&
               a->padded.by.multiple == b->padded.by.multiple;
    case AXIS_JOINED:
        return a->joined.first == b->joined.first && a->joined.second == b->joined.second;
    case AXIS_SIZED:
        return a->sized.rows == b->sized.rows && a->sized.sequences == b->sized.sequences;
    case AXIS_WANTED:
        return a->wanted.of == b->wanted.of && a->wanted.reach == b->wanted.reach;
    }
    return false;
}

/* Returns an equal axis of the plan. If there is none, appends the axis. So values with the same rows are on the same
 * axis. */
static int find_or_append(struct plan_builder *builder, struct plan_axis axis)
{
    for (int i = 0; i < builder->plan->n_axes; i++)
        if (equals(&builder->plan->axes[i], &axis))
            return i;
    return append(builder, axis);
}

int plan_ragged_axis(struct plan_builder *builder, int input)
{
    return append(builder, (struct plan_axis){.kind = AXIS_INPUT, .input = input, .input_padding = {0, 0}});
}

int plan_unpadded_axis(struct plan_builder *builder, int input)
{
    return find_or_append(builder, (struct plan_axis){.kind = AXIS_INPUT, .input = input, .input_padding = {0, 0}});
}

int plan_fixed_axis(struct plan_builder *builder, int64_t rows_per_item)
{
    return find_or_append(builder,
                          (struct plan_axis){.kind = AXIS_FIXED, .input = PLAN_NONE, .rows_per_item = rows_per_item});
}

int plan_projected_axis(struct plan_builder *builder, int input, int64_t k, int64_t n)
{
    return find_or_append(builder, (struct plan_axis){.kind = AXIS_PROJECTED, .input = input, .projected = {k, n}});
}

int plan_window_axis(struct plan_builder *builder, int input, const struct plan_window *window)
{
    return find_or_append(builder, (struct plan_axis){.kind = AXIS_WINDOW, .input = input, .window = *window});
}

int plan_padded_axis(struct plan_builder *builder, int of, struct plan_padding by)
{
    int input = builder->plan->axes[of].input;
    return find_or_append(builder, (struct plan_axis){.kind = AXIS_PADDED, .input = input, .padded = {of, by}});
}

int plan_joined_axis(struct plan_builder *builder, int first, int second)
{
    int input = builder->plan->axes[first].input;
    return find_or_append(builder, (struct plan_axis){.kind = AXIS_JOINED, .input = input, .joined = {first, second}});
}

/* The input whose length equals the size. PLAN_NONE if there is none. */
static int input_of_size(const struct plan *plan, int size)
{
    const struct plan_size *of = &plan->sizes[size];
    if (of->n_terms != 1 || of->terms[0].coefficient != 1 || of->terms[0].n_factors != 1)
        return PLAN_NONE;
    const struct plan_factor *factor = &plan->factors[of->terms[0].factors[0]];
    bool length = factor->kind == FACTOR_FREE && factor->free.input != PLAN_NONE &&
                  plan->inputs[factor->free.input].input.layout == LAYOUT_SEQUENCE;
    return length ? factor->free.input : PLAN_NONE;
}

int plan_sized_axis(struct plan_builder *builder, int rows, int sequences)
{
    if (builder->failed)
        return PLAN_NONE;
    const struct plan *plan = builder->plan;
    int64_t each, count, least_sequences, most;
    plan_size_bounds(plan, rows, &each, &most);
    plan_size_bounds(plan, sequences, &least_sequences, &most);
    if (each > MAX_ROWS || least_sequences > MAX_ROWS || (each > 0 && least_sequences > MAX_ROWS / each))
        return plan_fail(
            builder,
            "an intermediate result has %lld sequences of %lld rows for each item; expected at most %d rows in all",
            (long long)least_sequences, (long long)each, MAX_ROWS);
    bool one = plan_size_is_constant(plan, sequences, &count) && count == 1;
    if (one && plan_size_is_constant(plan, rows, &each))
        return plan_fixed_axis(builder, each);
    if (one && input_of_size(plan, rows) != PLAN_NONE)
        return plan_unpadded_axis(builder, input_of_size(plan, rows));
    return find_or_append(builder,
                          (struct plan_axis){.kind = AXIS_SIZED, .input = PLAN_NONE, .sized = {rows, sequences}});
}

int plan_wanted_axis(struct plan_builder *builder, int of, int64_t reach)
{
    int input = builder->plan->axes[of].input;
    return append(builder, (struct plan_axis){.kind = AXIS_WANTED, .input = input, .wanted = {of, reach}});
}

int plan_new_value(struct plan_builder *builder, int axis, int64_t columns)
{
    if (builder->failed)
        return PLAN_NONE;
    if (columns > MAX_COLUMNS)
        return plan_fail(builder, "an intermediate result has %lld columns; expected at most %d", (long long)columns,
                         MAX_COLUMNS);
    struct plan_value *value = plan_grow(builder, &builder->plan->values, &builder->plan->n_values, sizeof *value);
    if (!value)
        return PLAN_NONE;
    value->axis = axis;
    value->columns = columns;
    return builder->plan->n_values - 1;
}
