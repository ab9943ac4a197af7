/* inputs: the inputs of a plan, and the padding of their items. */
#include "engine/plan/axes.h"
#include "engine/plan/scope.h"
#include "engine/plan/sizes.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Appends an input, and returns its index. The plan keeps a copy of the name. */
static int add_input(struct plan_builder *builder, struct plan_input input)
{
    struct plan *plan = builder->plan;
    if (plan->n_inputs == ENGINE_MAX_INPUTS)
        return plan_fail(builder, "the model has more than %d inputs", ENGINE_MAX_INPUTS);
    input.name = strdup(input.input.name);
    if (!input.name)
        return plan_fail(builder, "out of memory while building the plan");
    input.input.name = input.name;
    plan->inputs[plan->n_inputs] = input;
    return plan->n_inputs++;
}

/* Appends an input whose value is on the axis. */
static int place_input(struct plan_builder *builder, struct plan_input input, int axis)
{
    input.value = plan_new_value(builder, axis, input.input.columns);
    if (input.value == PLAN_NONE)
        return PLAN_NONE;
    builder->plan->values[input.value].ids = input.input.kind != INPUT_ROWS;
    input.input.own_limit = input.input.max_length != 0;
    input.input.min_length = builder->padding == PADDING_EXACT && input.input.own_limit ? input.input.max_length : 1;
    input.input.multiple = 1;
    return add_input(builder, input) == PLAN_NONE ? PLAN_NONE : input.value;
}

/* Appends an input, and returns its value. `like` is a value with the same rows, or PLAN_NONE if the input has its own
 * number of rows. */
static int new_input(struct plan_builder *builder, struct model_input input, int like)
{
    if (builder->failed)
        return PLAN_NONE;
    if (builder->scope.leaf)
        return plan_bound_input(builder, &input, like);
    struct plan *plan = builder->plan;
    int axis = like == PLAN_NONE ? plan_ragged_axis(builder, plan->n_inputs) : plan_value_at(builder, like)->axis;
    if (like != PLAN_NONE) {
        input.like = plan->axes[axis].input;
        input.layout = plan->inputs[input.like].input.layout;
    }
    return place_input(builder, (struct plan_input){.input = input}, axis);
}

int plan_input_ids(struct plan_builder *builder, const char *name, int64_t vocabulary, int64_t max_length, int fallback)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_IDS,
                                .columns = 1,
                                .vocabulary = vocabulary,
                                .like = PLAN_NONE,
                                .max_length = max_length,
                                .optional = fallback != PLAN_NONE,
                                .fallback = fallback};
    return new_input(builder, input, PLAN_NONE);
}

int plan_input_rows(struct plan_builder *builder, const char *name, int64_t columns, int64_t max_length, int fallback)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_ROWS,
                                .columns = columns,
                                .like = PLAN_NONE,
                                .max_length = max_length,
                                .optional = fallback != PLAN_NONE,
                                .fallback = fallback};
    return new_input(builder, input, PLAN_NONE);
}

int plan_input_image(struct plan_builder *builder, const char *name, int64_t channels)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_ROWS,
                                .layout = LAYOUT_IMAGE,
                                .columns = channels,
                                .like = PLAN_NONE,
                                .fallback = PLAN_NONE};
    return new_input(builder, input, PLAN_NONE);
}

int plan_input_pixels(struct plan_builder *builder, const char *name, int64_t channels, const char *refused)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_ROWS,
                                .layout = LAYOUT_CHANNELS,
                                .columns = channels,
                                .like = PLAN_NONE,
                                .refused = refused,
                                .optional = true,
                                .fallback = PLAN_NONE};
    return new_input(builder, input, PLAN_NONE);
}

int plan_input_mask(struct plan_builder *builder, const char *name, int like)
{
    struct model_input input = {
        .name = name, .kind = INPUT_MASK, .columns = 1, .like = PLAN_NONE, .optional = true, .fallback = PLAN_NONE};
    return new_input(builder, input, like);
}

int plan_input_rows_like(struct plan_builder *builder, const char *name, int64_t columns, int like, int fallback)
{
    struct model_input input = {.name = name,
                                .kind = INPUT_ROWS,
                                .columns = columns,
                                .like = PLAN_NONE,
                                .optional = fallback != PLAN_NONE,
                                .fallback = fallback};
    return new_input(builder, input, like);
}

int plan_input_beside(struct plan_builder *builder, struct model_input input, int like)
{
    if (builder->failed)
        return PLAN_NONE;
    if (builder->scope.leaf)
        return plan_unbound_input(builder, &input);
    struct plan *plan = builder->plan;
    input.like = plan->axes[plan_value_at(builder, like)->axis].input;
    input.layout = plan->inputs[input.like].input.layout;
    input.optional = true;
    input.fallback = PLAN_NONE;
    return add_input(builder, (struct plan_input){.input = input, .value = PLAN_NONE});
}

int plan_input_tensor(struct plan_builder *builder, const char *name, enum input_kind kind, int64_t vocabulary,
                      int rank, const int *sizes, int64_t columns)
{
    struct plan_input input = {.input = {.name = name,
                                         .kind = kind,
                                         .layout = LAYOUT_TENSOR,
                                         .columns = columns,
                                         .vocabulary = vocabulary,
                                         .like = PLAN_NONE,
                                         .rank = rank,
                                         .fallback = PLAN_NONE}};
    assert(kind == INPUT_IDS || kind == INPUT_ROWS || kind == INPUT_MASK);
    assert(kind == INPUT_ROWS || columns == 1);
    if (rank > ENGINE_MAX_RANK)
        return plan_fail(builder, "input \"%s\" has %d dimensions besides the batch; expected at most %d", name, rank,
                         ENGINE_MAX_RANK);
    int elements = plan_size_constant(builder, 1), rows;
    for (int d = 0; d < rank && !builder->failed; d++) {
        int64_t size;
        input.sizes[d] = sizes[d];
        input.input.shape[d] = plan_size_is_constant(builder->plan, sizes[d], &size) ? size : -1;
        elements = plan_size_multiply(builder, elements, sizes[d]);
    }
    if (builder->failed)
        return PLAN_NONE;
    if (!plan_size_divides(builder, elements, plan_size_constant(builder, columns), &rows))
        return plan_fail(builder, "the size of input \"%s\" is not a multiple of its %lld columns", name,
                         (long long)columns);
    int axis = plan_sized_axis(builder, rows, plan_size_constant(builder, 1));
    return axis == PLAN_NONE ? PLAN_NONE : place_input(builder, input, axis);
}

void plan_call_layout(struct plan_builder *builder, int input_value)
{
    if (builder->failed)
        return;
    const struct plan_axis *axis = &builder->plan->axes[plan_value_at(builder, input_value)->axis];
    if (builder->scope.leaf)
        plan_need_call(builder, axis);
    else
        builder->plan->inputs[axis->input].input.layout = LAYOUT_CALL;
}

/* Pads the input, or in a scope a copy of the value. The copy is necessary because other steps may read the value
 * without padding. */
static int pad(struct plan_builder *builder, int value, struct plan_padding padding)
{
    if (builder->failed)
        return PLAN_NONE;
    int axis = plan_value_at(builder, value)->axis;
    if (builder->scope.leaf) {
        int64_t rows = plan_constant_rows(builder->plan, axis);
        return rows && plan_padded_rows(padding, rows) == rows ? value : plan_pad_rows(builder, value, padding);
    }
    builder->plan->axes[axis].input_padding = padding;
    return value;
}

int plan_pad(struct plan_builder *builder, int input_value, int64_t rows)
{
    return pad(builder, input_value, (struct plan_padding){.rows = rows});
}

int plan_pad_to_multiple(struct plan_builder *builder, int input_value, int64_t multiple)
{
    return pad(builder, input_value, (struct plan_padding){.multiple = multiple});
}

void plan_require_multiple(struct plan_builder *builder, int input_value, int64_t multiple)
{
    for (int i = 0; !builder->failed && !builder->scope.leaf && i < builder->plan->n_inputs; i++)
        if (builder->plan->inputs[i].value == input_value)
            builder->plan->inputs[i].input.multiple = multiple;
    if (!builder->failed && builder->scope.leaf)
        plan_bound_multiple(builder, input_value, multiple);
}

enum padding plan_choose_padding(struct plan_builder *builder, const char *class_name, enum padding asked,
                                 const enum padding *allowed)
{
    enum padding chosen = asked == PADDING_DEFAULT ? allowed[0] : asked;
    char can[80] = "";
    builder->padding = chosen;
    if (!builder->scope.leaf)
        builder->plan->padding = chosen;
    for (size_t i = 0; allowed[i] != PADDING_DEFAULT; i++) {
        if (allowed[i] == chosen)
            return chosen;
        size_t length = strlen(can);
        snprintf(can + length, sizeof can - length, "%s%s", length ? " or " : "", padding_name(allowed[i]));
    }
    plan_fail(builder, "padding \"%s\" is not supported: %s accepts %s with these kwargs", padding_name(asked),
              class_name, can);
    return chosen;
}
