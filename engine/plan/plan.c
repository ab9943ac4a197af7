/* plan: functions that return properties of a finished plan. */
#include "engine/plan/plan.h"

#include <math.h>
#include <stdlib.h>

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    for (int i = 0; i < plan->n_weights; i++) {
        free(plan->weights[i].name);
        free(plan->weights[i].data);
    }
    for (int i = 0; i < plan->n_inputs; i++)
        free(plan->inputs[i].name);
    for (int i = 0; i < plan->n_outputs; i++)
        free(plan->outputs[i].name);
    free(plan->outputs);
    for (int i = 0; i < plan->n_nodes; i++) {
        free(plan->nodes[i].name);
        free(plan->nodes[i].operation);
    }
    free(plan->nodes);
    free(plan->axes);
    free(plan->values);
    free(plan->weights);
    free(plan->steps);
    free(plan->factors);
    free(plan->sizes);
    free(plan->spaces);
    free(plan->size_limits);
    free(plan->decisions);
    free(plan);
}

/* The number of pixels from the first to the last of the window. Dimension 0 is the height, and dimension 1 the
 * width. */
static int64_t window_extent(const struct plan_window *window, int dimension)
{
    return (window->size[dimension] - 1) * window->dilation[dimension] + 1;
}

bool plan_window_fits(const struct plan_window *window, struct plan_image image)
{
    return image.height + window->before[0] + window->after[0] >= window_extent(window, 0) &&
           image.width + window->before[1] + window->after[1] >= window_extent(window, 1);
}

struct plan_image plan_convolved(const struct plan_window *window, struct plan_image image)
{
    int64_t height = image.height + window->before[0] + window->after[0] - window_extent(window, 0);
    int64_t width = image.width + window->before[1] + window->after[1] - window_extent(window, 1);
    return (struct plan_image){height / window->stride[0] + 1, width / window->stride[1] + 1};
}

/* The number of pixels of a convolution's result. 0 if the window does not fit in the image. */
static int64_t convolved_rows(const struct plan_window *window, struct plan_image image)
{
    if (!plan_window_fits(window, image))
        return 0;
    image = plan_convolved(window, image);
    return image.height * image.width;
}

int plan_sequences(const struct plan *plan, int axis)
{
    const struct plan_axis *of = &plan->axes[axis];
    int64_t count;
    if (of->kind == AXIS_PADDED)
        return plan_sequences(plan, of->padded.of);
    bool one = of->kind != AXIS_SIZED || (plan_size_is_constant(plan, of->sized.sequences, &count) && count == 1);
    return one ? PLAN_NONE : of->sized.sequences;
}

int64_t plan_axis_sequences(const struct plan *plan, int axis, const struct plan_lengths *lengths, const void *context)
{
    int size = plan_sequences(plan, axis);
    int64_t count = 1;
    if (size != PLAN_NONE && (!plan_size_value(plan, size, lengths, context, &count) || count < 0))
        return 0;
    return count;
}

/* The rows of an item on an AXIS_PADDED. Each sequence of the item is padded by itself. */
static int64_t rows_with_padding(const struct plan *plan, int axis, const struct plan_lengths *lengths,
                                 const void *context)
{
    const struct plan_axis *of = &plan->axes[axis];
    int64_t sequences = plan_axis_sequences(plan, axis, lengths, context), product;
    int64_t rows = plan_axis_rows(plan, of->padded.of, lengths, context);
    if (sequences == 0 || rows < 0)
        return -1;
    rows = plan_padded_rows(of->padded.by, rows / sequences);
    return __builtin_mul_overflow(rows, sequences, &product) ? -1 : product;
}

/* Rows of all sequences of a sized axis. */
static int64_t sized_rows(const struct plan *plan, const struct plan_axis *axis, const struct plan_lengths *lengths,
                          const void *context)
{
    int64_t rows, sequences, product;
    bool there = plan_size_value(plan, axis->sized.rows, lengths, context, &rows) && rows >= 0 &&
                 plan_size_value(plan, axis->sized.sequences, lengths, context, &sequences) && sequences >= 0 &&
                 !__builtin_mul_overflow(rows, sequences, &product);
    return there ? product : -1;
}

int64_t plan_padded_rows(struct plan_padding padding, int64_t rows)
{
    if (padding.rows)
        return padding.rows;
    return padding.multiple ? (rows + padding.multiple - 1) / padding.multiple * padding.multiple : rows;
}

int64_t plan_axis_rows(const struct plan *plan, int axis, const struct plan_lengths *lengths, const void *context)
{
    const struct plan_axis *of = &plan->axes[axis];
    struct plan_given given = {.rows = 0};
    if (of->kind == AXIS_INPUT || of->kind == AXIS_PROJECTED || of->kind == AXIS_WINDOW)
        given = lengths->axis(plan, of, context);
    switch (of->kind) {
    case AXIS_FIXED:
        return of->rows_per_item;
    case AXIS_INPUT:
        return given.rows;
    case AXIS_PROJECTED:
        return given.rows / of->projected.n * of->projected.k;
    case AXIS_WINDOW:
        return given.rows == 0 ? 0 : convolved_rows(&of->window, given.image);
    case AXIS_PADDED:
        return rows_with_padding(plan, axis, lengths, context);
    case AXIS_JOINED:
        return plan_axis_rows(plan, of->joined.first, lengths, context) +
               plan_axis_rows(plan, of->joined.second, lengths, context);
    case AXIS_SIZED:
        return sized_rows(plan, of, lengths, context);
    case AXIS_WANTED:
        return plan_axis_rows(plan, of->wanted.of, lengths, context);
    }
    return 0;
}

/* `context` points to a number of rows. Each input has this number of rows, except inputs that an item may lack. */
static struct plan_given give_rows(const struct plan *plan, const struct plan_axis *axis, const void *context)
{
    struct plan_given given = {.rows = *(const int64_t *)context};
    if (plan_may_lack(plan, axis->input))
        return (struct plan_given){.rows = 0};
    given.image = (struct plan_image){1, given.rows};
    if (plan->inputs[axis->input].input.layout == LAYOUT_IMAGE)
        given.image.height = given.image.width = (int64_t)sqrt((double)given.rows);
    return given;
}

/* `context` points to a number of rows. Every free size is this number, clamped to the size's bounds. */
static int64_t give_dimension(const struct plan *plan, int input, int dimension, const void *context)
{
    if (input == PLAN_NONE) /* the batch dimension, which is 1 for one item */
        return 1;
    for (int i = 0; i < plan->n_factors; i++) {
        const struct plan_factor *factor = &plan->factors[i];
        if (factor->kind != FACTOR_FREE || factor->free.input != input || factor->free.dimension != dimension)
            continue;
        int64_t rows = *(const int64_t *)context;
        rows = rows < factor->free.least ? factor->free.least : rows;
        return rows > factor->free.most ? factor->free.most : rows;
    }
    return 0;
}

static const struct plan_lengths lengths_of_rows = {give_rows, give_dimension};

int64_t plan_value_rows(const struct plan *plan, int value, int64_t rows)
{
    int64_t found = plan_axis_rows(plan, plan->values[value].axis, &lengths_of_rows, &rows);
    return found < 0 ? 0 : found;
}

int64_t plan_value_sequence_rows(const struct plan *plan, int value, int64_t rows)
{
    int64_t sequences = plan_axis_sequences(plan, plan->values[value].axis, &lengths_of_rows, &rows);
    return sequences == 0 ? 0 : plan_value_rows(plan, value, rows) / sequences;
}

/* ---- Bounds ---- */

bool plan_counts_axes(const struct plan *plan)
{
    bool counts = plan->n_outputs > 0;
    for (int i = 0; i < plan->n_axes; i++)
        counts |= plan->axes[i].kind == AXIS_SIZED;
    for (int i = 0; i < plan->n_inputs; i++)
        counts |= plan->inputs[i].input.layout == LAYOUT_TENSOR;
    return counts;
}

int64_t plan_item_rows(const struct plan *plan, const struct plan_lengths *lengths, const void *context, int *axis)
{
    int64_t most = 1;
    *axis = 0;
    for (int i = 0; i < plan->n_axes; i++) {
        if (plan->axes[i].kind == AXIS_WANTED) /* its rows are some of the rows of another axis */
            continue;
        int64_t rows = plan_axis_rows(plan, i, lengths, context);
        if (rows < 1 || rows > most)
            *axis = i;
        if (rows < 1)
            return -1;
        most = rows > most ? rows : most;
    }
    return most;
}

/* Whether items whose free sizes are all `side` have at most `rows` rows on each axis. A size that is 0 or negative,
 * because `side` is too small, is accepted. */
static bool side_fits(const struct plan *plan, int64_t side, int64_t rows)
{
    for (int i = 0; i < plan->n_axes; i++) {
        const struct plan_axis *axis = &plan->axes[i];
        int64_t size;
        if (axis->kind == AXIS_SIZED && (!plan_size_value(plan, axis->sized.rows, &lengths_of_rows, &side, &size) ||
                                         !plan_size_value(plan, axis->sized.sequences, &lengths_of_rows, &side, &size)))
            return false;
        if (axis->kind != AXIS_WANTED && plan_axis_rows(plan, i, &lengths_of_rows, &side) > rows)
            return false;
    }
    return true;
}

int64_t plan_side(const struct plan *plan, int64_t rows)
{
    int64_t side = 1, behind = rows + 1;
    while (behind - side > 1) {
        int64_t middle = side + (behind - side) / 2;
        if (side_fits(plan, middle, rows))
            side = middle;
        else
            behind = middle;
    }
    return side;
}

bool plan_size_at(const struct plan *plan, int size, int64_t side, int64_t *value)
{
    return plan_size_value(plan, size, &lengths_of_rows, &side, value);
}

/* Sets *rows to the number of rows of every sequence on the axis. Returns false if it depends on the item. */
static bool find_constant_rows(const struct plan *plan, int axis, int64_t *rows)
{
    const struct plan_axis *of = &plan->axes[axis];
    if (of->kind == AXIS_SIZED)
        return plan_size_is_constant(plan, of->sized.rows, rows);
    if (of->kind == AXIS_FIXED)
        *rows = of->rows_per_item;
    if (of->kind != AXIS_PADDED)
        return of->kind == AXIS_FIXED;
    *rows = 0;
    if (of->padded.by.rows == 0 && !find_constant_rows(plan, of->padded.of, rows))
        return false;
    *rows = plan_padded_rows(of->padded.by, *rows);
    return true;
}

int64_t plan_constant_rows(const struct plan *plan, int axis)
{
    int64_t rows;
    return find_constant_rows(plan, axis, &rows) ? rows : 0;
}

int64_t plan_same_rows(const struct plan *plan, int axis)
{
    const struct plan_axis *rows = &plan->axes[axis];
    if (rows->kind != AXIS_INPUT)
        return plan_constant_rows(plan, axis);
    const struct model_input *input = &plan->inputs[rows->input].input;
    bool exact = input->own_limit && input->min_length == input->max_length;
    return rows->input_padding.rows ? rows->input_padding.rows : exact ? input->max_length : 0;
}

/* Sets *sequences to the number of sequences of every item on the axis. Returns false if it depends on the item. */
static bool find_constant_sequences(const struct plan *plan, int axis, int64_t *sequences)
{
    const struct plan_axis *of = &plan->axes[axis];
    *sequences = 1;
    if (of->kind == AXIS_PADDED)
        return find_constant_sequences(plan, of->padded.of, sequences);
    return of->kind != AXIS_SIZED || plan_size_is_constant(plan, of->sized.sequences, sequences);
}

bool plan_rows_are_constant(const struct plan *plan, int axis, int64_t *rows)
{
    int64_t each, sequences;
    return find_constant_rows(plan, axis, &each) && find_constant_sequences(plan, axis, &sequences) &&
           !__builtin_mul_overflow(each, sequences, rows);
}

int64_t plan_least_rows(const struct plan *plan, int axis)
{
    const struct plan_axis *of = &plan->axes[axis];
    int64_t rows, sequences, most;
    if (of->kind == AXIS_FIXED)
        return of->rows_per_item;
    if (of->kind == AXIS_PADDED)
        return plan_padded_rows(of->padded.by,
                                find_constant_sequences(plan, of->padded.of, &sequences) && sequences == 1
                                    ? plan_least_rows(plan, of->padded.of)
                                    : 1);
    if (of->kind != AXIS_SIZED)
        return 0;
    plan_size_bounds(plan, of->sized.rows, &rows, &most);
    plan_size_bounds(plan, of->sized.sequences, &sequences, &most);
    if (rows < 0 || sequences < 0)
        return 0;
    return __builtin_mul_overflow(rows, sequences, &rows) ? INT64_MAX : rows;
}

/* An item may have more rows than a usual batch allows. Such an item runs as a batch by itself, and has at most
 * max_rows rows. */
int64_t plan_most_rows(const struct plan *plan, int axis, int64_t n_items)
{
    const struct plan_axis *of = &plan->axes[axis];
    int64_t rows = plan->max_rows, each;
    if (plan_rows_are_constant(plan, axis, &each) && __builtin_mul_overflow(each, n_items, &rows))
        rows = INT64_MAX;
    if (plan_counts_axes(plan) && rows > plan->max_rows)
        return plan->max_rows;
    if (of->kind == AXIS_PROJECTED && __builtin_mul_overflow(rows / of->projected.n, of->projected.k, &rows))
        return INT64_MAX;
    return rows;
}

int64_t plan_most_sequences(const struct plan *plan, int axis, int64_t n_items)
{
    int64_t least, most, rows = plan_most_rows(plan, axis, n_items);
    if (plan_sequences(plan, axis) == PLAN_NONE)
        return n_items;
    while (plan->axes[axis].kind == AXIS_PADDED)
        axis = plan->axes[axis].padded.of;
    plan_size_bounds(plan, plan->axes[axis].sized.rows, &least, &most);
    return least > 1 ? rows / least : rows;
}

int64_t plan_most_sequence_rows(const struct plan *plan, int value)
{
    const struct plan_axis *axis = &plan->axes[plan->values[value].axis];
    if (axis->kind == AXIS_FIXED)
        return axis->rows_per_item;
    int64_t least, most = plan->max_rows;
    if (axis->kind == AXIS_SIZED)
        plan_size_bounds(plan, axis->sized.rows, &least, &most);
    if (most > plan->max_rows)
        most = plan->max_rows;
    return axis->kind == AXIS_PROJECTED ? axis->projected.k : most;
}

bool plan_may_lack(const struct plan *plan, int input)
{
    const struct plan_input *of = &plan->inputs[input];
    return of->input.optional && of->input.fallback == PLAN_NONE && of->input.like == PLAN_NONE;
}
