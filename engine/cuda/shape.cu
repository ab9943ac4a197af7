#include "engine/cuda/shape.h"

#include "engine/plan/arithmetic.h"

#include <stdlib.h>
#include <string.h>

#define MIN_ROW_STEP 16 /* in rows: the smallest difference between two rounded numbers of rows */
#ifndef SPOILED_ROWS
#define SPOILED_ROWS 4096 /* computing this many rows takes about as long as launching several products */
#endif
#ifndef FULL_ROWS
/* Minimum number of rows of a full sequence, unless every sequence of every batch is full. With fewer rows, launches
 * without a graph would take longer than the kernels. */
#define FULL_ROWS 2048
#endif
#ifndef GROUPED_ROWS
/* Minimum number of rows in grouped products together. With fewer rows, launches would take longer than the kernels.
 * Estimated, not measured. */
#define GROUPED_ROWS 8192
#endif
/* In rows. From one power of two to the next, there are at most four rounded numbers below this limit, and eight
 * above. */
#define FINE_FROM 1024

int shape_open(const struct plan *plan, struct batch_shape *shape, struct error *error)
{
    shape->rows = (int64_t *)calloc((size_t)plan->n_axes + 1, sizeof *shape->rows);
    shape->selected = (enum selected *)calloc((size_t)plan->n_steps + 1, sizeof *shape->selected);
    shape->full = (enum selected *)calloc((size_t)plan->n_steps + 1, sizeof *shape->full);
    shape->sequences = (int64_t *)calloc((size_t)plan->n_axes + 1, sizeof *shape->sequences);
    if (shape->rows && shape->selected && shape->full && shape->sequences)
        return 0;
    shape_free(shape);
    return error_set(error, "out of memory while preparing a model");
}

void shape_free(struct batch_shape *shape)
{
    free(shape->rows);
    free(shape->selected);
    free(shape->full);
    free(shape->sequences);
    shape->rows = shape->sequences = NULL;
    shape->selected = shape->full = NULL;
}

/* The result is at most `most`, because the arena has no room for more rows. */
int64_t shape_round_rows(int64_t rows, int64_t most)
{
    int64_t power = MIN_ROW_STEP;
    while (power <= rows / 2)
        power *= 2;
    int64_t step = power / (rows < FINE_FROM ? 4 : 8);
    step = step < MIN_ROW_STEP ? MIN_ROW_STEP : step;
    int64_t rounded = (rows + step - 1) / step * step;
    return rounded < most ? rounded : most;
}

int64_t shape_rows_below(int64_t rows)
{
    int64_t below = (rows - 1) / MIN_ROW_STEP * MIN_ROW_STEP;
    while (below > 0 && shape_round_rows(below, below + 1) != below)
        below -= MIN_ROW_STEP;
    return below;
}

/* Rounds up to a power of two, but to at most `most`. */
static int64_t round_count(int64_t count, int64_t most)
{
    int64_t power = 1;
    while (power < count)
        power *= 2;
    return power < most ? power : most;
}

bool shape_selects(const struct batch *batch, const struct plan_step *step, int64_t sequence)
{
    if (step->only.axis == PLAN_NONE)
        return true;
    const int64_t *starts = batch->layouts[step->only.axis].starts + sequence;
    int64_t rows = starts[1] - starts[0];
    return step->only.least <= rows && rows <= step->only.most;
}

static enum selected count_selected(const struct batch *batch, const struct plan_step *step)
{
    int64_t count = 0, all = step->only.axis == PLAN_NONE ? 1 : batch->layouts[step->only.axis].n_sequences;
    for (int64_t sequence = 0; sequence < all; sequence++)
        count += shape_selects(batch, step, sequence);
    return count == 0 ? SELECTED_NONE : count == all ? SELECTED_ALL : SELECTED_SOME;
}

int64_t shape_full_rows(const struct plan *plan, const struct plan_step *step)
{
    if (step->operation != OP_PROJECT_SEQUENCE)
        return 0;
    const struct plan_weight *e = &plan->weights[step->weight];
    int axis = plan->values[step->x].axis;
    int64_t rows = step->project_sequence.transposed ? e->columns : e->rows / step->project_sequence.groups;
    if (plan->axes[axis].shared || (rows < FULL_ROWS && plan_same_rows(plan, axis) != rows))
        return 0;
    return rows <= plan_most_rows(plan, axis, plan->max_items) ? rows : 0;
}

int64_t shape_full_count(const struct plan *plan, const struct batch_shape *shape, int step)
{
    int axis = plan->values[plan->steps[step].x].axis;
    return least(shape->rows[axis] / shape_full_rows(plan, &plan->steps[step]), shape->sequences[axis]);
}

int64_t shape_most_full(const struct plan *plan, int step)
{
    int axis = plan->values[plan->steps[step].x].axis;
    return least(plan_most_rows(plan, axis, plan->max_items) / shape_full_rows(plan, &plan->steps[step]),
                 plan_most_sequences(plan, axis, plan->max_items));
}

static enum selected count_full(const struct plan *plan, const struct batch *batch, const struct plan_step *step)
{
    int64_t rows = shape_full_rows(plan, step), count = 0;
    if (rows == 0) /* the step may have no x */
        return SELECTED_NONE;
    const struct layout *layout = &batch->layouts[plan->values[step->x].axis];
    for (int64_t sequence = 0; sequence < layout->n_sequences; sequence++)
        count +=
            layout->starts[sequence + 1] - layout->starts[sequence] == rows && shape_selects(batch, step, sequence);
    return count == 0 ? SELECTED_NONE : count == layout->n_sequences ? SELECTED_ALL : SELECTED_SOME;
}

bool shape_could_group(const struct plan *plan, const struct plan_step *step)
{
    int64_t full = shape_full_rows(plan, step);
    if (full == 0)
        return false;
    int axis = plan->values[step->x].axis;
    return plan_same_rows(plan, axis) != full && plan_most_rows(plan, axis, plan->max_items) >= GROUPED_ROWS;
}

bool shape_groups(const struct plan *plan, const struct batch *batch, const struct plan_step *step, int64_t multiplied)
{
    int64_t common = 0, together = 0;
    bool several = false;
    const struct layout *layout = &batch->layouts[plan->values[step->x].axis];
    for (int64_t sequence = 0; sequence < layout->n_sequences; sequence++) {
        int64_t rows = layout->starts[sequence + 1] - layout->starts[sequence];
        if (rows == 0)
            return false;
        if (!shape_selects(batch, step, sequence) || rows == multiplied)
            continue;
        several = several || (common > 0 && rows != common);
        common = rows;
        together += rows;
    }
    return shape_could_group(plan, step) && several && together >= GROUPED_ROWS;
}

static void find_tensors(const struct plan *plan, const struct engine_item *item, struct batch_shape *shape)
{
    shape->tensors |= item->output != NULL;
    for (int i = 0; i < item->n_extras; i++)
        if (item->extras[i].output < plan->n_outputs)
            shape->tensors |= UINT64_C(1) << least(item->extras[i].output, 63);
}

static void find_wants(const struct plan *plan, const struct batch *batch, struct batch_shape *shape)
{
    int64_t top_k = 0;
    shape->hidden = shape->pooled = shape->output = shape->softmax = shape->targets = false;
    shape->tensors = 0;
    for (int64_t b = 0; b < batch->n_items; b++) {
        const struct engine_item *item = &batch->items[b];
        if (plan->n_outputs > 0) {
            find_tensors(plan, item, shape);
            continue;
        }
        shape->hidden |= item->hidden != NULL;
        shape->pooled |= item->pooled != NULL;
        shape->output |= item->output && item->top_k == 0;
        shape->softmax |= item->softmax && (item->output || item->top_k > 0);
        shape->targets |= item->targets != NULL;
        top_k = item->top_k > top_k ? item->top_k : top_k;
    }
    shape->top_k = top_k == 0 ? 0 : round_count(top_k, plan->output_columns);
}

/* Finds the kinds of items in the batch. Kernels that use slots compute each kind in a different way. */
static void find_kinds(const struct plan *plan, const struct batch *batch, struct batch_shape *shape)
{
    shape->whole_sequences = plan->n_slots == 0;
    shape->single_rows = shape->several_rows = false;
    for (int64_t b = 0; plan->n_slots > 0 && b < batch->n_items; b++) {
        bool one_row = padder_length(plan, &batch->items[b], plan->axes[plan->resumed_axis].input) == 1;
        shape->whole_sequences |= batch->items[b].slot == 0;
        shape->single_rows |= batch->items[b].slot > 0 && one_row;
        shape->several_rows |= batch->items[b].slot > 0 && !one_row;
    }
}

void shape_of_batch(const struct plan *plan, const struct batch *batch, struct batch_shape *shape)
{
    shape->n_items = round_count(batch->n_items, plan->max_items);
    shape->n_wanted = shape_round_rows(batch->n_wanted, plan->max_rows);
    find_wants(plan, batch, shape);
    find_kinds(plan, batch, shape);
    for (int i = 0; i < plan->n_axes; i++) {
        int64_t most = plan_most_rows(plan, i, shape->n_items), constant;
        shape->rows[i] = plan_rows_are_constant(plan, i, &constant)
                             ? most
                             : shape_round_rows(batch->layouts[i].item_starts[batch->n_items], most);
        shape->sequences[i] =
            plan_sequences(plan, i) == PLAN_NONE
                ? shape->n_items
                : round_count(batch->layouts[i].n_sequences, plan_most_sequences(plan, i, shape->n_items));
    }
    for (int i = 0; i < plan->n_steps; i++) {
        shape->selected[i] = count_selected(batch, &plan->steps[i]);
        shape->full[i] = count_full(plan, batch, &plan->steps[i]);
    }
}

void shape_of_size(const struct plan *plan, int64_t rows, int64_t n_items, struct batch_shape *shape)
{
    shape->n_items = n_items;
    shape->n_wanted = plan->max_rows;
    shape->top_k = plan->output_columns;
    shape->hidden = shape->pooled = shape->output = shape->softmax = shape->targets = true;
    shape->whole_sequences = true;
    shape->single_rows = shape->several_rows = plan->n_slots > 0;
    shape->tensors = UINT64_MAX;
    for (int i = 0; i < plan->n_axes; i++) {
        const struct plan_axis *axis = &plan->axes[i];
        int64_t most = plan_most_rows(plan, i, n_items), own = rows, constant;
        if (axis->kind == AXIS_PROJECTED)
            own = (rows + axis->projected.n - 1) / axis->projected.n * axis->projected.k;
        shape->rows[i] = plan_rows_are_constant(plan, i, &constant) ? most : shape_round_rows(own, most);
        shape->sequences[i] = plan_most_sequences(plan, i, n_items);
    }
    for (int i = 0; i < plan->n_steps; i++) {
        shape->selected[i] = SELECTED_ALL;
        shape->full[i] = SELECTED_NONE;
    }
}

void shape_of_full(const struct plan *plan, int step, int64_t count, struct batch_shape *shape)
{
    int64_t rows = shape_full_rows(plan, &plan->steps[step]);
    shape_of_size(plan, count * rows, round_count(count, plan->max_items), shape);
    shape->full[step] = SELECTED_ALL;
}

void shape_of_largest(const struct plan *plan, struct batch_shape *shape)
{
    shape_of_size(plan, plan->max_rows, plan->max_items, shape);
}

bool shape_equals(const struct plan *plan, const struct batch_shape *a, const struct batch_shape *b)
{
    return a->n_items == b->n_items && a->n_wanted == b->n_wanted && a->top_k == b->top_k && a->hidden == b->hidden &&
           a->pooled == b->pooled && a->output == b->output && a->softmax == b->softmax && a->targets == b->targets &&
           a->tensors == b->tensors && a->whole_sequences == b->whole_sequences && a->single_rows == b->single_rows &&
           a->several_rows == b->several_rows &&
           memcmp(a->rows, b->rows, (size_t)plan->n_axes * sizeof *a->rows) == 0 &&
           memcmp(a->sequences, b->sequences, (size_t)plan->n_axes * sizeof *a->sequences) == 0 &&
           memcmp(a->selected, b->selected, (size_t)plan->n_steps * sizeof *a->selected) == 0 &&
           memcmp(a->full, b->full, (size_t)plan->n_steps * sizeof *a->full) == 0;
}

uint64_t shape_hash(const struct plan *plan, const struct batch_shape *shape)
{
    const int64_t own[] = {shape->n_items,         shape->n_wanted,    shape->top_k,        shape->hidden,
                           shape->pooled,          shape->output,      shape->softmax,      shape->targets,
                           shape->whole_sequences, shape->single_rows, shape->several_rows, (int64_t)shape->tensors};
    uint64_t hash = 14695981039346656037u; /* FNV-1a over words instead of bytes */
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        hash = (hash ^ (uint64_t)own[i]) * 1099511628211u;
    for (int i = 0; i < plan->n_axes; i++)
        hash = ((hash ^ (uint64_t)shape->rows[i]) * 1099511628211u ^ (uint64_t)shape->sequences[i]) * 1099511628211u;
    for (int i = 0; i < plan->n_steps; i++)
        hash = ((hash ^ (uint64_t)shape->selected[i]) * 1099511628211u ^ (uint64_t)shape->full[i]) * 1099511628211u;
    return hash ^ hash >> 32;
}

void shape_copy(const struct plan *plan, struct batch_shape *to, const struct batch_shape *from)
{
    int64_t *rows = to->rows, *sequences = to->sequences;
    memcpy(sequences, from->sequences, (size_t)plan->n_axes * sizeof *sequences);
    enum selected *selected = to->selected, *full = to->full;
    memcpy(rows, from->rows, (size_t)plan->n_axes * sizeof *rows);
    memcpy(selected, from->selected, (size_t)plan->n_steps * sizeof *selected);
    memcpy(full, from->full, (size_t)plan->n_steps * sizeof *full);
    *to = *from;
    to->rows = rows;
    to->sequences = sequences;
    to->selected = selected;
    to->full = full;
}

int64_t shape_blocks(const struct batch_shape *shape, int axis)
{
    return shape->rows[axis] / PADDER_BLOCK_ROWS + shape->sequences[axis];
}

bool shape_launches_apart(const struct plan *plan, const struct batch_shape *shape, int step)
{
    return plan->steps[step].operation == OP_LINEAR && shape->selected[step] == SELECTED_SOME &&
           shape->rows[plan->values[plan->steps[step].x].axis] > SPOILED_ROWS;
}
