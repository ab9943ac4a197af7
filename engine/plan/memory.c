/* memory: plans the arena, which is the memory of all values. Values whose lifetimes do not overlap share the same
 * bytes. */
#include "engine/plan/operations.h"
#include "engine/plan/passes.h"

#include <stdlib.h>

#define MAX_PIXELS (INT64_C(512) * 512) /* upper limit for the pixels of an image, if the class states no limit */

#define ALIGNMENT 64 /* in bytes: the size of a cache line, and of the widest vector register */

static void extend_lifetime(struct plan *plan, int value, int step)
{
    if (value == PLAN_NONE)
        return;
    if (plan->values[value].first_step < 0)
        plan->values[value].first_step = step;
    plan->values[value].last_step = step;
}

static void find_lifetimes(struct plan *plan)
{
    for (int i = 0; i < plan->n_values; i++)
        plan->values[i].first_step = plan->values[i].last_step = -1;
    for (int i = 0; i < plan->n_inputs; i++)
        extend_lifetime(plan, plan->inputs[i].value, 0); /* inputs are filled before the first step */
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        for (int r = 0; r < PLAN_READS; r++)
            extend_lifetime(plan, step->reads[r], i);
        extend_lifetime(plan, step->y, i);
    }
}

/* If an in-place operation is the last reader of x, y reuses the memory of x. Then both count as one value, x, whose
 * lifetime includes that of y. in_place[y] is x, or PLAN_NONE. */
static void find_in_place(struct plan *plan, int *in_place)
{
    for (int i = 0; i < plan->n_values; i++)
        in_place[i] = PLAN_NONE;
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        if (!plan_operations[step->operation].in_place || plan->values[step->x].last_step != i)
            continue;
        in_place[step->y] = step->x;
        /* x and y may have different numbers of columns, so y may have more bytes after rounding up the rows. */
        if (plan->values[step->x].bytes < plan->values[step->y].bytes)
            plan->values[step->x].bytes = plan->values[step->y].bytes;
        plan->values[step->x].last_step = plan->values[step->y].last_step;
        /* y needs no separate memory. */
        plan->values[step->y].first_step = plan->values[step->y].last_step = -1;
    }
}

/* Sets the bytes of the value in the largest batch. Returns false if this number overflows, or if the sum over all
 * values might overflow. */
static bool size_value(const struct plan *plan, struct plan_value *value)
{
    int64_t rows = plan_most_rows(plan, value->axis, plan->max_items), elements, bytes;
    if (__builtin_add_overflow(rows, PLAN_ROW_BLOCK - 1, &rows))
        return false;
    rows -= rows % PLAN_ROW_BLOCK;
    if (__builtin_mul_overflow(rows, value->columns, &elements) || __builtin_mul_overflow(elements, 4, &bytes) ||
        __builtin_add_overflow(bytes, ALIGNMENT - 1, &bytes) || bytes > INT64_MAX / (plan->n_values + 1))
        return false;
    value->bytes = (size_t)(bytes - bytes % ALIGNMENT);
    return true;
}

static bool lifetimes_meet(const struct plan_value *a, const struct plan_value *b)
{
    return a->first_step <= b->last_step && b->first_step <= a->last_step;
}

/* The lowest offset at which `value` overlaps no placed value whose lifetime overlaps its own. */
static size_t lowest_offset(const struct plan *plan, const struct plan_value *value, const bool *placed)
{
    size_t offset = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < plan->n_values; i++) {
            const struct plan_value *other = &plan->values[i];
            if (!placed[i] || !lifetimes_meet(value, other))
                continue;
            if (offset < other->offset + other->bytes && other->offset < offset + value->bytes) {
                offset = other->offset + other->bytes;
                moved = true;
            }
        }
    }
    return offset;
}

/* The largest value that needs memory and has no place yet. PLAN_NONE if none is left. Placing large values first
 * wastes less memory. */
static int largest_unplaced(const struct plan *plan, const bool *placed)
{
    int largest = PLAN_NONE;
    for (int i = 0; i < plan->n_values; i++) {
        if (placed[i] || plan->values[i].first_step < 0)
            continue;
        if (largest == PLAN_NONE || plan->values[i].bytes > plan->values[largest].bytes)
            largest = i;
    }
    return largest;
}

/* Sets the maximum length of inputs for which the model states none. It is max_rows, rounded down to a multiple of the
 * padding's `multiple`. If max_rows is less than `multiple`, it is raised to `multiple` first, so that an item of one
 * row fits. */
static void limit_lengths(struct plan *plan)
{
    for (int i = 0; i < plan->n_axes; i++)
        if (plan->axes[i].kind == AXIS_INPUT && plan->axes[i].input_padding.multiple > plan->max_rows)
            plan->max_rows = plan->axes[i].input_padding.multiple;
    for (int i = 0; i < plan->n_inputs; i++) {
        int value = plan->inputs[i].value;
        int64_t multiple = value == PLAN_NONE ? 0 : plan->axes[plan->values[value].axis].input_padding.multiple;
        if (plan->inputs[i].input.max_length == 0)
            plan->inputs[i].input.max_length = plan->max_rows - (multiple ? plan->max_rows % multiple : 0);
    }
}

/* Raises max_rows so that the longest item also fits on padded axes. */
static void make_room_for_padding(struct plan *plan)
{
    for (int i = 0; i < plan->n_axes; i++) {
        int64_t rows =
            plan->axes[i].kind == AXIS_PADDED ? plan_padded_rows(plan->axes[i].padded.by, plan->max_rows) : 0;
        if (rows > plan->max_rows)
            plan->max_rows = rows;
    }
}

/* For plans with plan_counts_axes. Raises max_rows so that the smallest possible item fits. If all sizes are constant,
 * this is every item. */
static void fit_smallest_item(struct plan *plan)
{
    for (int i = 0; plan_counts_axes(plan) && i < plan->n_axes; i++) {
        int64_t rows = plan_least_rows(plan, i);
        plan->max_rows = rows > plan->max_rows ? rows : plan->max_rows;
    }
}

/* Gives all values their offsets. `placed` and `in_place` have an element for each value. All elements of `placed` are
 * false at first. */
static void place_values(struct plan *plan, bool *placed, int *in_place)
{
    find_in_place(plan, in_place);
    int largest = largest_unplaced(plan, placed);
    while (largest != PLAN_NONE) {
        struct plan_value *value = &plan->values[largest];
        value->offset = lowest_offset(plan, value, placed);
        if (value->offset + value->bytes > plan->arena_bytes)
            plan->arena_bytes = value->offset + value->bytes;
        placed[largest] = true;
        largest = largest_unplaced(plan, placed);
    }
    for (int i = 0; i < plan->n_values; i++)
        if (in_place[i] != PLAN_NONE)
            plan->values[i].offset = plan->values[in_place[i]].offset;
}

int plan_place_values(struct plan *plan, int64_t max_rows, int64_t max_items, struct error *error)
{
    plan->max_rows = max_rows;
    plan->max_items = max_items;
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].input.max_length > plan->max_rows)
            plan->max_rows = plan->inputs[i].input.max_length;
    fit_smallest_item(plan);
    limit_lengths(plan);
    make_room_for_padding(plan);

    find_lifetimes(plan);
    for (int i = 0; i < plan->n_values; i++)
        if (!size_value(plan, &plan->values[i]))
            return error_set(error, "the activations of a batch of %lld rows exceed the address space",
                             (long long)plan->max_rows);
    bool *placed = calloc((size_t)plan->n_values + 1, sizeof *placed);
    int *in_place = malloc(((size_t)plan->n_values + 1) * sizeof *in_place);
    if (placed && in_place)
        place_values(plan, placed, in_place);
    bool failed = !placed || !in_place;
    free(placed);
    free(in_place);
    return failed ? error_set(error, "out of memory while planning the arena") : 0;
}

int plan_enlarge_images(struct plan *plan, size_t arena_bytes, struct error *error)
{
    int64_t pixel_bytes = (int64_t)plan->arena_bytes / plan->max_rows + 1;
    int64_t rows = (int64_t)arena_bytes / pixel_bytes / PLAN_ROW_BLOCK * PLAN_ROW_BLOCK;
    rows = rows < MAX_PIXELS ? rows : MAX_PIXELS;
    if (plan->inputs[0].input.layout != LAYOUT_IMAGE || rows <= plan->max_rows)
        return 0;
    for (int i = 0; i < plan->n_inputs; i++)
        if (!plan->inputs[i].input.own_limit)
            plan->inputs[i].input.max_length = 0;
    plan->arena_bytes = 0;
    return plan_place_values(plan, rows, plan->max_items, error);
}
