#include "engine/plan/padder.h"
#include "engine/plan/shared_rows.h"

#include <stdlib.h>
#include <string.h>

#define SQUARE 16

int padder_open(const struct plan *plan, struct batch *batch, struct error *error)
{
    memset(batch, 0, sizeof *batch);
    batch->max_wanted = plan->max_rows;
    batch->wanted = calloc((size_t)plan->max_rows, sizeof *batch->wanted);
    batch->marks = calloc((size_t)plan->max_rows, sizeof *batch->marks);
    batch->layouts = calloc((size_t)plan->n_axes, sizeof *batch->layouts);
    batch->sizes = calloc((size_t)plan->max_items, (size_t)(plan->n_sizes + 1) * sizeof *batch->sizes);
    if (!batch->wanted || !batch->marks || !batch->layouts || !batch->sizes)
        goto fail;
    for (int i = 0; i < plan->n_axes; i++) {
        struct layout *layout = &batch->layouts[i];
        int64_t sequences = plan_most_sequences(plan, i, plan->max_items);
        int64_t most_blocks = plan_most_rows(plan, i, plan->max_items) / PADDER_BLOCK_ROWS + sequences + 1;
        layout->starts = layout->item_starts = calloc((size_t)sequences + 1, sizeof *layout->starts);
        layout->blocks = calloc((size_t)most_blocks, sizeof *layout->blocks);
        if (plan_sequences(plan, i) != PLAN_NONE)
            layout->item_starts = calloc((size_t)plan->max_items + 1, sizeof *layout->item_starts);
        if (!layout->starts || !layout->item_starts || !layout->blocks)
            goto fail;
        if (plan->axes[i].shared) {
            layout->owners = calloc((size_t)sequences + 1, sizeof *layout->owners);
            if (!layout->owners)
                goto fail;
        }
        if (plan->axes[i].kind == AXIS_WANTED) {
            layout->positions = calloc((size_t)plan->max_rows, sizeof *layout->positions);
            if (!layout->positions)
                goto fail;
        }
    }
    return 0;
fail:
    padder_free(plan, batch);
    return error_set(error, "out of memory for the layout of a batch of %lld rows", (long long)plan->max_rows);
}

void padder_free(const struct plan *plan, struct batch *batch)
{
    for (int i = 0; batch->layouts && i < plan->n_axes; i++) {
        if (batch->layouts[i].item_starts != batch->layouts[i].starts)
            free(batch->layouts[i].item_starts);
        free(batch->layouts[i].starts);
        free(batch->layouts[i].owners);
        free(batch->layouts[i].positions);
        free(batch->layouts[i].blocks);
    }
    free(batch->layouts);
    free(batch->wanted);
    free(batch->marks);
    free(batch->sizes);
    memset(batch, 0, sizeof *batch);
}

/* The input whose rows are used for this input. It is the input itself if the item contains it. */
static int source_input(const struct plan *plan, const struct engine_item *item, int index)
{
    while (!item->inputs[index].data && plan->inputs[index].input.fallback != PLAN_NONE)
        index = plan->inputs[index].input.fallback;
    return index;
}

/* The number of rows of a tensor. 0 if a size is negative, or if the number of elements overflows. model_check refuses
 * such shapes. */
static int64_t rows_of_sizes(const struct model_input *input, const int64_t *sizes)
{
    int64_t elements = 1;
    for (int d = 0; d < input->rank; d++)
        if (sizes[d] < 0 || __builtin_mul_overflow(elements, sizes[d], &elements))
            return 0;
    return elements / input->columns;
}

int64_t padder_length(const struct plan *plan, const struct engine_item *item, int index)
{
    if (plan->inputs[index].input.layout == LAYOUT_TENSOR)
        return rows_of_sizes(&plan->inputs[index].input, item->inputs[index].sizes);
    int source = source_input(plan, item, index);
    if (!item->inputs[source].data && plan->inputs[source].input.like != PLAN_NONE)
        return padder_length(plan, item, plan->inputs[source].input.like);
    if (!item->inputs[source].data && plan_may_lack(plan, source))
        return 0;
    if (plan->inputs[source].input.layout == LAYOUT_IMAGE)
        return item->inputs[source].length * item->inputs[source].width;
    return item->inputs[source].length * padder_width(plan, item, source);
}

int64_t padder_width(const struct plan *plan, const struct engine_item *item, int index)
{
    return plan->inputs[index].input.layout == LAYOUT_CALL ? item->inputs[source_input(plan, item, index)].width : 1;
}

int64_t padder_value_width(const struct plan *plan, const struct engine_item *item, int value)
{
    int input = plan->axes[plan->values[value].axis].input;
    return input == PLAN_NONE ? 1 : padder_width(plan, item, input);
}

struct plan_image padder_image(const struct plan *plan, const struct engine_item *item, int index)
{
    if (plan->inputs[index].input.layout == LAYOUT_IMAGE)
        return (struct plan_image){item->inputs[index].length, item->inputs[index].width};
    return (struct plan_image){1, padder_length(plan, item, index)};
}

struct plan_image padder_axis_image(const struct plan *plan, const struct engine_item *item, int axis)
{
    const struct plan_axis *pixels = &plan->axes[axis];
    struct plan_image image = padder_image(plan, item, pixels->input);
    return pixels->kind == AXIS_WINDOW ? plan_convolved(&pixels->window, image) : image;
}

struct plan_image padder_convolution_image(const struct plan *plan, const struct batch *batch,
                                           const struct plan_step *step, int64_t item)
{
    const int64_t *sizes = batch->sizes + item * plan->n_sizes;
    if (step->convolve_image.height == PLAN_NONE)
        return padder_axis_image(plan, &batch->items[item], plan->values[step->x].axis);
    return (struct plan_image){sizes[step->convolve_image.height], sizes[step->convolve_image.width]};
}

/* Returns the length of an input of the item to which `context` points. */
static struct plan_given give_item(const struct plan *plan, const struct plan_axis *axis, const void *context)
{
    const struct engine_item *item = context;
    struct plan_given given = {.rows = padder_length(plan, item, axis->input)};
    bool part = item->slot > 0; /* the item is a part of a sequence, so padding would be between the parts */
    if (axis->kind == AXIS_INPUT && !(part && plan->axes[plan->resumed_axis].input == axis->input))
        given.rows = plan_padded_rows(axis->input_padding, given.rows);
    else if (axis->kind != AXIS_INPUT)
        given.image = padder_image(plan, item, axis->input);
    return given;
}

/* Returns a free size of an item, to which `context` points. The only free size of a sequence is its length. The batch
 * dimension is 1. */
static int64_t give_dimension(const struct plan *plan, int input, int dimension, const void *context)
{
    if (input == PLAN_NONE)
        return 1;
    const struct engine_item *item = context;
    bool tensor = plan->inputs[input].input.layout == LAYOUT_TENSOR;
    return tensor ? item->inputs[input].sizes[dimension] : padder_length(plan, item, input);
}

static const struct plan_lengths lengths_of_item = {give_item, give_dimension};

int64_t padder_axis_rows(const struct plan *plan, const struct engine_item *item, int axis)
{
    return plan_axis_rows(plan, axis, &lengths_of_item, item);
}

int64_t padder_item_rows(const struct plan *plan, const struct engine_item *item, int *axis)
{
    return plan_item_rows(plan, &lengths_of_item, item, axis);
}

float *padder_tensor(const struct engine_item *item, int output)
{
    if (output == 0)
        return item->output;
    for (int i = 0; i < item->n_extras; i++)
        if (item->extras[i].output == output)
            return item->extras[i].data;
    return NULL;
}

float *padder_softmax(const struct plan *plan, const struct engine_item *item, const struct plan_step *step)
{
    if (step->attend.index == PLAN_NONE)
        return NULL;
    for (int i = 0; i < item->n_extras; i++)
        if (item->extras[i].output == plan_attention_output(plan, step->attend.index))
            return item->extras[i].data;
    return NULL;
}

bool padder_size(const struct plan *plan, const struct engine_item *item, int size, int64_t *value)
{
    return plan_size_value(plan, size, &lengths_of_item, item, value);
}

int64_t padder_own_rows(const struct plan *plan, const struct engine_item *item, int axis)
{
    const struct plan_axis *rows = &plan->axes[axis];
    if (rows->kind == AXIS_PADDED)
        return padder_own_rows(plan, item, rows->padded.of);
    if (rows->kind == AXIS_WANTED)
        return padder_own_rows(plan, item, rows->wanted.of);
    return rows->kind == AXIS_INPUT ? padder_length(plan, item, rows->input) : padder_axis_rows(plan, item, axis);
}

struct padder_sequence padder_sequence(const struct plan *plan, const struct batch *batch, int axis, int64_t index)
{
    const struct layout *layout = &batch->layouts[axis];
    int64_t first = layout->starts[index], rows = layout->starts[index + 1] - first, item = 0, behind = batch->n_items;
    if (plan_sequences(plan, axis) == PLAN_NONE)
        return (struct padder_sequence){.item = index, .first = first, .rows = rows};
    while (behind - item > 1) { /* binary search for the last item that begins at `first` or before */
        int64_t middle = (item + behind) / 2;
        if (layout->item_starts[middle] <= first)
            item = middle;
        else
            behind = middle;
    }
    return (struct padder_sequence){item, (first - layout->item_starts[item]) / rows, first, rows};
}

static void append_sequence(struct layout *layout, int64_t rows)
{
    int64_t sequence = layout->n_sequences++, first = layout->starts[sequence];
    layout->starts[sequence + 1] = first + rows;
    for (int64_t done = 0; done < rows; done += PADDER_BLOCK_ROWS) {
        int64_t left = rows - done;
        layout->blocks[layout->n_blocks++] = (struct row_block){
            .sequence = sequence, .first = first + done, .rows = left < PADDER_BLOCK_ROWS ? left : PADDER_BLOCK_ROWS};
    }
}

/* Appends the sequences of an item to the layout. `rows` is the number of rows of all these sequences together. */
static void lay_out_axis(struct layout *layout, int64_t item, int64_t rows, int64_t sequences)
{
    layout->starts[0] = layout->item_starts[0] = 0;
    for (int64_t s = 0; s < sequences; s++)
        append_sequence(layout, rows / sequences);
    layout->item_starts[item + 1] = layout->starts[layout->n_sequences];
}

int64_t padder_row(const struct layout *layout, int64_t sequence, int64_t position)
{
    int64_t row = layout->starts[sequence], behind = layout->starts[sequence + 1];
    if (!layout->positions)
        return row + position;
    while (behind - row > 1) {
        int64_t middle = (row + behind) / 2;
        if (layout->positions[middle] <= position)
            row = middle;
        else
            behind = middle;
    }
    return row;
}

int64_t padder_item_row(const struct layout *layout, int64_t item, int64_t number)
{
    return layout->positions ? padder_row(layout, item, number) : layout->item_starts[item] + number;
}

static bool wants_all_rows(const struct engine_item *item)
{
    bool pools_all = item->pooled && item->pooling != POOLING_CLS && item->pooling != POOLING_LAST;
    return item->hidden || pools_all || item->n_extras > 0 || (engine_item_wants_rows(item) && !item->rows);
}

/* Marks the requested rows among the item's `all_rows` rows, and `reach` rows on either side of each. */
static void mark_wanted(struct batch *batch, const struct engine_item *item, int64_t own_rows, int64_t reach,
                        int64_t all_rows)
{
    memset(batch->marks, 0, (size_t)all_rows);
    int64_t outputs = engine_item_wants_rows(item) ? item->n_rows : 0;
    bool reads_last = item->slot > 0 || item->pooling == POOLING_LAST; /* a slot may keep a part of the last row, so
                                                                          this row must be computed */
    for (int64_t i = 0; i < outputs + (item->pooled || item->slot > 0); i++) {
        int64_t row = i < outputs ? item->rows[i] : reads_last ? own_rows - 1 : 0;
        int64_t first = row > reach ? row - reach : 0, last = row + reach < all_rows ? row + reach : all_rows - 1;
        memset(batch->marks + first, 1, (size_t)(last - first + 1));
    }
}

static void lay_out_wanted_axis(const struct plan *plan, struct batch *batch, int axis, int64_t index)
{
    struct layout *layout = &batch->layouts[axis];
    const struct engine_item *item = &batch->items[index];
    int64_t all = padder_axis_rows(plan, item, axis), own = padder_own_rows(plan, item, axis);
    int64_t first = index == 0 ? 0 : layout->starts[index], count = 0;
    bool every = wants_all_rows(item);
    if (!every)
        mark_wanted(batch, item, own, plan->axes[axis].wanted.reach, all);
    for (int64_t p = 0; p < all; p++)
        if (every || batch->marks[p])
            layout->positions[first + count++] = (int32_t)p;
    lay_out_axis(layout, index, count, 1);
}

/* Appends the requested rows of an item to batch->wanted. `layout` is the layout of the last hidden state. */
static void lay_out_wanted(struct batch *batch, const struct layout *layout, int64_t index)
{
    const struct engine_item *item = &batch->items[index];
    if (!engine_item_wants_rows(item))
        return;
    for (int64_t i = 0; i < item->n_rows; i++) {
        int64_t row = padder_item_row(layout, index, item->rows ? item->rows[i] : i);
        batch->wanted[batch->n_wanted++] =
            (struct wanted_row){.item = index, .index = i, .row = row, .target = item->targets ? item->targets[i] : -1};
    }
}

const void *padder_data(const struct plan *plan, const struct engine_item *item, int index)
{
    return item->inputs[source_input(plan, item, index)].data;
}

/* Lays out an axis for an item. If the item shares the rows of the item before it, the item itself has no rows on the
 * axis. */
static void lay_out_shared(const struct plan *plan, struct batch *batch, int axis, int64_t index)
{
    const struct engine_item *item = &batch->items[index];
    struct layout *layout = &batch->layouts[axis];
    bool same = batch->shares && index > 0 && plan_has_same_rows(plan, axis, item - 1, item);
    layout->owners[index] = same ? layout->owners[index - 1] : index;
    lay_out_axis(layout, index, same ? 0 : padder_axis_rows(plan, item, axis), 1);
}

void padder_lay_out(const struct plan *plan, struct batch *batch, const struct engine_item *items, int64_t n_items)
{
    batch->items = items;
    batch->n_items = n_items;
    batch->n_wanted = 0;
    for (int64_t i = 0; i < n_items; i++)
        for (int s = 0; s < plan->n_sizes; s++)
            padder_size(plan, &items[i], s, &batch->sizes[i * plan->n_sizes + s]);
    for (int a = 0; a < plan->n_axes; a++) {
        batch->layouts[a].n_blocks = batch->layouts[a].n_sequences = 0;
        for (int64_t i = 0; i < n_items; i++)
            if (plan->axes[a].kind == AXIS_WANTED)
                lay_out_wanted_axis(plan, batch, a, i);
            else if (plan->axes[a].shared)
                lay_out_shared(plan, batch, a, i);
            else
                lay_out_axis(&batch->layouts[a], i, padder_axis_rows(plan, &items[i], a),
                             plan_axis_sequences(plan, a, &lengths_of_item, &items[i]));
    }
    for (int64_t i = 0; plan->hidden_axis != PLAN_NONE && i < n_items; i++)
        lay_out_wanted(batch, &batch->layouts[plan->hidden_axis], i);
}

/* Converts a mask of bytes to 0 and 1. All rows are 1 if `mask` is NULL. Rows that padding adds are set to `beyond`. */
static void gather_mask(const uint8_t *mask, int64_t length, int64_t rows, int32_t beyond, int32_t *out)
{
    for (int64_t r = 0; r < rows; r++)
        out[r] = r >= length ? beyond : mask ? mask[r] != 0 : 1;
}

/* Transposes (columns, rows) to out (rows, columns). Copies one square block after another, so that the cache lines of
 * a block stay in the cache. */
static void gather_channels(const float *data, int64_t columns, int64_t rows, float *out)
{
    for (int64_t row = 0; row < rows; row += SQUARE)
        for (int64_t column = 0; column < columns; column += SQUARE)
            for (int64_t r = row; r < rows && r < row + SQUARE; r++)
                for (int64_t c = column; c < columns && c < column + SQUARE; c++)
                    out[r * columns + c] = data[c * rows + r];
}

void padder_gather_item(const struct plan *plan, const struct batch *batch, int index, int64_t i, void *rows)
{
    const struct plan_value *value = &plan->values[plan->inputs[index].value];
    const struct layout *layout = &batch->layouts[value->axis];
    const struct plan_axis *axis = &plan->axes[value->axis];
    const struct engine_item *item = &batch->items[i];
    const void *data = padder_data(plan, item, index);
    bool beyond = axis->kind == AXIS_INPUT && axis->input_padding.multiple == 0;
    size_t row_bytes = (size_t)value->columns * 4; /* int32_t or float */
    char *out = (char *)rows + (size_t)layout->item_starts[i] * row_bytes;
    int64_t length = padder_length(plan, item, index), all = layout->item_starts[i + 1] - layout->item_starts[i];
    enum input_layout order = plan->inputs[index].input.layout;
    if (layout->owners && layout->owners[i] != i)
        return; /* the item shares the rows of an earlier item */
    if (plan->inputs[index].input.kind == INPUT_MASK) {
        gather_mask(data, length, all, beyond, (int32_t *)out);
    } else if (order == LAYOUT_IMAGE || order == LAYOUT_CHANNELS) {
        gather_channels(data, value->columns, length, (float *)out);
    } else if (length > 0) {
        memcpy(out, data, (size_t)length * row_bytes);
        memset(out + (size_t)length * row_bytes, 0, (size_t)(all - length) * row_bytes);
    }
}

void padder_gather(const struct plan *plan, const struct batch *batch, int index, void *rows)
{
    for (int64_t i = 0; i < batch->n_items; i++)
        padder_gather_item(plan, batch, index, i, rows);
}
