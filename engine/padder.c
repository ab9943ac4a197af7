#include "engine/padder.h"

#include <stdlib.h>
#include <string.h>

/* Rows of an axis in the largest batch. An item longer than a batch is one of its own and no longer than max_rows. */
static int64_t axis_rows(const struct plan *plan, const struct plan_axis *axis)
{
    return axis->input == PLAN_NONE ? axis->rows_per_item * plan->max_items : plan->max_rows;
}

int padder_open(const struct plan *plan, struct batch *batch, struct error *error)
{
    memset(batch, 0, sizeof *batch);
    batch->max_wanted = plan->max_rows;
    batch->wanted = calloc((size_t)plan->max_rows, sizeof *batch->wanted);
    batch->layouts = calloc((size_t)plan->n_axes, sizeof *batch->layouts);
    if (!batch->wanted || !batch->layouts)
        goto fail;
    for (int i = 0; i < plan->n_axes; i++) {
        struct layout *layout = &batch->layouts[i];
        int64_t most_blocks = axis_rows(plan, &plan->axes[i]) / PADDER_BLOCK_ROWS + plan->max_items + 1;
        layout->starts = calloc((size_t)plan->max_items + 1, sizeof *layout->starts);
        layout->blocks = calloc((size_t)most_blocks, sizeof *layout->blocks);
        if (!layout->starts || !layout->blocks)
            goto fail;
    }
    return 0;
fail:
    padder_free(plan, batch);
    return error_set(error, "out of memory for the layout of a batch of %lld rows", (long long)plan->max_rows);
}

void padder_free(const struct plan *plan, struct batch *batch)
{
    for (int i = 0; batch->layouts && i < plan->n_axes; i++) {
        free(batch->layouts[i].starts);
        free(batch->layouts[i].blocks);
    }
    free(batch->layouts);
    free(batch->wanted);
    memset(batch, 0, sizeof *batch);
}

/* The input whose rows stand for this one: itself where the item gives it. */
static int source_input(const struct plan *plan, const struct engine_item *item, int index)
{
    while (!item->inputs[index].data && plan->inputs[index].fallback != PLAN_NONE)
        index = plan->inputs[index].fallback;
    return index;
}

int64_t padder_length(const struct plan *plan, const struct engine_item *item, int index)
{
    return item->inputs[source_input(plan, item, index)].length;
}

static void lay_out_axis(struct layout *layout, int64_t item, int64_t rows)
{
    int64_t first = item == 0 ? 0 : layout->starts[item];
    layout->starts[0] = 0;
    layout->starts[item + 1] = first + rows;
    for (int64_t done = 0; done < rows; done += PADDER_BLOCK_ROWS) {
        int64_t left = rows - done;
        layout->blocks[layout->n_blocks++] = (struct row_block){
            .item = item, .first = first + done, .rows = left < PADDER_BLOCK_ROWS ? left : PADDER_BLOCK_ROWS};
    }
}

/* The last axis of an item's hidden state is that of inputs[0]. */
static void lay_out_wanted(struct batch *batch, const struct layout *layout, int64_t index)
{
    const struct engine_item *item = &batch->items[index];
    if (!item->output && item->top_k == 0)
        return;
    for (int64_t i = 0; i < item->n_rows; i++) {
        int64_t row = layout->starts[index] + (item->rows ? item->rows[i] : i);
        batch->wanted[batch->n_wanted++] = (struct wanted_row){.item = index, .index = i, .row = row};
    }
}

void padder_lay_out(const struct plan *plan, struct batch *batch, const struct engine_item *items, int64_t n_items)
{
    batch->items = items;
    batch->n_items = n_items;
    batch->n_wanted = 0;
    for (int a = 0; a < plan->n_axes; a++) {
        const struct plan_axis *axis = &plan->axes[a];
        batch->layouts[a].n_blocks = 0;
        for (int64_t i = 0; i < n_items; i++)
            lay_out_axis(&batch->layouts[a], i,
                         axis->input == PLAN_NONE ? axis->rows_per_item : padder_length(plan, &items[i], axis->input));
    }
    const struct layout *first = &batch->layouts[plan->values[plan->inputs[0].value].axis];
    for (int64_t i = 0; i < n_items; i++)
        lay_out_wanted(batch, first, i);
}

void padder_gather(const struct plan *plan, const struct batch *batch, int index, void *rows)
{
    const struct plan_value *value = &plan->values[plan->inputs[index].value];
    const struct layout *layout = &batch->layouts[value->axis];
    size_t row_bytes = (size_t)value->columns * (value->ids ? sizeof(int32_t) : sizeof(float));
    for (int64_t i = 0; i < batch->n_items; i++) {
        const struct engine_item *item = &batch->items[i];
        const void *data = item->inputs[source_input(plan, item, index)].data;
        size_t length = (size_t)(layout->starts[i + 1] - layout->starts[i]);
        memcpy((char *)rows + (size_t)layout->starts[i] * row_bytes, data, length * row_bytes);
    }
}
