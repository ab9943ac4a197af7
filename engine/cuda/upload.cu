#include "engine/cuda/upload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256 /* of each table, in bytes */
#define THREADS 256

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Reserves `bytes`, and returns their offset. */
static size_t place(struct upload *upload, size_t bytes)
{
    size_t offset = upload->used;
    upload->used += aligned(bytes);
    return offset;
}

static bool is_score_mask(const struct plan_input *input)
{
    return input->value == PLAN_NONE && input->input.kind == INPUT_ATTENTION_MASK;
}

static size_t input_bytes(const struct plan *plan, const struct batch_shape *shape, int input)
{
    const struct plan_value *value = &plan->values[plan->inputs[input].value];
    return (size_t)(shape->rows[value->axis] * value->columns) * sizeof(float);
}

static void free_masks(struct mask_room *room)
{
    cudaFree(room->device);
    cudaFreeHost(room->host);
    memset(room, 0, sizeof *room);
}

/* Computes the places of all data in the block, except for the masks themselves. */
static void lay_out(struct upload *upload, const struct plan *plan, const struct batch_shape *shape)
{
    size_t n_items = (size_t)shape->n_items;
    upload->used = 0;
    for (int i = 0; i < plan->n_axes; i++) {
        struct axis_places *axis = &upload->axes[i];
        size_t n_sequences = (size_t)shape->sequences[i];
        axis->starts = axis->item_starts = place(upload, (n_sequences + 1) * sizeof(int64_t));
        if (plan_sequences(plan, i) != PLAN_NONE)
            axis->item_starts = place(upload, (n_items + 1) * sizeof(int64_t));
        axis->lengths = place(upload, n_sequences * sizeof(int64_t));
        axis->positions =
            place(upload, plan->axes[i].kind == AXIS_WANTED ? (size_t)shape->rows[i] * sizeof(int32_t) : 0);
        axis->blocks = place(upload, (size_t)shape_blocks(shape, i) * sizeof(struct row_block));
    }
    upload->items = place(upload, n_items * sizeof(struct device_item));
    upload->sizes = place(upload, n_items * (size_t)plan->n_sizes * sizeof(int64_t));
    upload->wanted = place(upload, (size_t)shape->n_wanted * sizeof(struct wanted_row));
    for (int i = 0; i < plan->n_inputs; i++) {
        if (is_score_mask(&plan->inputs[i]))
            upload->masks[i] = place(upload, n_items * sizeof(struct score_mask));
        else if (plan->inputs[i].value != PLAN_NONE)
            upload->rows[i] = place(upload, input_bytes(plan, shape, i));
    }
}

int upload_open(const struct plan *plan, struct upload *upload, struct error *error)
{
    struct batch_shape largest;
    upload->axes = (struct axis_places *)calloc((size_t)plan->n_axes + 1, sizeof *upload->axes);
    upload->on_device = (struct device_axis *)calloc((size_t)plan->n_axes + 1, sizeof *upload->on_device);
    if (!upload->axes || !upload->on_device)
        return error_set(error, "the host is out of memory while preparing a model");
    if (shape_open(plan, &largest, error) != 0)
        return -1;
    shape_of_largest(plan, &largest);
    lay_out(upload, plan, &largest);
    shape_free(&largest);
    upload->bytes = upload->used;
    if (cuda_take_memory((void **)&upload->device, upload->bytes, "inputs", error) != 0)
        return -1;
    cudaError_t status = cudaMallocHost((void **)&upload->host, upload->bytes);
    if (status == cudaSuccess)
        return 0;
    upload->host = NULL;
    char what[128];
    snprintf(what, sizeof what, "cannot allocate %zu bytes of pinned memory of the host for inputs", upload->bytes);
    return cuda_fail(error, what, status);
}

void upload_free(struct upload *upload)
{
    cudaFree(upload->device);
    cudaFreeHost(upload->host);
    free_masks(&upload->room);
    free(upload->axes);
    free(upload->on_device);
}

/* ---- Filling ---- */

/* Copies `used` bytes to a place of `all` bytes, and fills the rest with zeros. */
static void fill(struct upload *upload, size_t offset, const void *data, size_t used, size_t all)
{
    if (used > 0)
        memcpy(upload->host + offset, data, used);
    memset(upload->host + offset + used, 0, all - used);
}

/* Writes the numbers of rows of the sequences, including rows that the axis omits. On an axis that omits some rows,
 * each item has one sequence. */
static void fill_lengths(int64_t *lengths, const struct plan *plan, const struct batch *batch,
                         const struct batch_shape *shape, int axis)
{
    const struct layout *layout = &batch->layouts[axis];
    for (int64_t s = 0; s < shape->sequences[axis]; s++) {
        if (s >= layout->n_sequences)
            lengths[s] = 0;
        else
            lengths[s] = layout->positions ? padder_axis_rows(plan, &batch->items[s], axis)
                                           : layout->starts[s + 1] - layout->starts[s];
    }
}

static void fill_axis(struct upload *upload, const struct plan *plan, const struct batch *batch,
                      const struct batch_shape *shape, int axis)
{
    const struct layout *layout = &batch->layouts[axis];
    const struct axis_places *places = &upload->axes[axis];
    int64_t *starts = (int64_t *)(upload->host + places->starts);
    int64_t *item_starts = (int64_t *)(upload->host + places->item_starts);
    int64_t rows = layout->item_starts[batch->n_items];
    for (int64_t s = 0; s <= shape->sequences[axis]; s++)
        starts[s] = layout->starts[least(s, layout->n_sequences)];
    for (int64_t b = 0; b <= shape->n_items; b++)
        item_starts[b] = layout->item_starts[least(b, batch->n_items)];
    fill_lengths((int64_t *)(upload->host + places->lengths), plan, batch, shape, axis);
    if (layout->positions)
        fill(upload, places->positions, layout->positions, (size_t)rows * sizeof *layout->positions,
             (size_t)shape->rows[axis] * sizeof *layout->positions);
    fill(upload, places->blocks, layout->blocks, (size_t)layout->n_blocks * sizeof *layout->blocks,
         (size_t)shape_blocks(shape, axis) * sizeof *layout->blocks);
    struct device_axis *on_device = &upload->on_device[axis];
    on_device->starts = (const int64_t *)(upload->device + places->starts);
    on_device->item_starts = (const int64_t *)(upload->device + places->item_starts);
    on_device->lengths = (const int64_t *)(upload->device + places->lengths);
    on_device->positions = layout->positions ? (const int32_t *)(upload->device + places->positions) : NULL;
    on_device->blocks = (const struct row_block *)(upload->device + places->blocks);
}

static void fill_items(struct upload *upload, const struct plan *plan, const struct batch *batch,
                       const struct batch_shape *shape)
{
    int hidden = plan->hidden_axis;
    struct device_item *items = (struct device_item *)(upload->host + upload->items);
    memset(items, 0, (size_t)shape->n_items * sizeof *items);
    for (int64_t i = 0; hidden != PLAN_NONE && i < batch->n_items; i++) {
        items[i].own_rows = padder_own_rows(plan, &batch->items[i], hidden);
        items[i].first = padder_item_row(&batch->layouts[hidden], i, 0);
        items[i].last = padder_item_row(&batch->layouts[hidden], i, items[i].own_rows - 1);
        items[i].slot = plan->n_slots > 0 ? batch->items[i].slot : 0;
        items[i].earlier = padder_earlier_rows(plan, batch, i);
        items[i].top_k = batch->items[i].top_k;
        items[i].softmax = batch->items[i].softmax;
        items[i].pooling = batch->items[i].pooling;
    }
    size_t item_bytes = (size_t)plan->n_sizes * sizeof *batch->sizes;
    fill(upload, upload->sizes, batch->sizes, (size_t)batch->n_items * item_bytes, (size_t)shape->n_items * item_bytes);
    fill(upload, upload->wanted, batch->wanted, (size_t)batch->n_wanted * sizeof *batch->wanted,
         (size_t)shape->n_wanted * sizeof *batch->wanted);
}

/* The size in bytes of the item's mask, or 0 if the item has no mask. The mask exists in memory, so its size does not
 * overflow. */
static size_t mask_bytes(const struct engine_item *item, int input)
{
    int64_t rows = most(1, item->inputs[input].n_masks) * item->inputs[input].length;
    if (!item->inputs[input].data)
        return 0;
    return (size_t)(rows * item->inputs[input].columns) * (item->inputs[input].floats ? sizeof(float) : 1);
}

/* Allocates the room. After a failure, the room is empty. */
static cudaError_t take_room(struct mask_room *room, size_t bytes)
{
    cudaError_t status = cudaMalloc((void **)&room->device, bytes);
    if (status == cudaSuccess)
        status = cudaMallocHost((void **)&room->host, bytes);
    if (status != cudaSuccess)
        free_masks(room);
    else
        room->bytes = bytes;
    return status;
}

/* Makes room for the masks of the batch. If the room is too small, it at least doubles, so that it seldom grows. If
 * there is no memory for this, the room becomes just large enough. */
static cudaError_t make_room(struct mask_room *room, const struct plan *plan, const struct batch *batch)
{
    size_t bytes = 0, doubled = 2 * room->bytes;
    room->used = 0;
    for (int i = 0; i < plan->n_inputs; i++)
        for (int64_t b = 0; is_score_mask(&plan->inputs[i]) && b < batch->n_items; b++)
            bytes += aligned(mask_bytes(&batch->items[b], i));
    if (bytes <= room->bytes)
        return cudaSuccess;
    free_masks(room);
    if (doubled > bytes && take_room(room, doubled) == cudaSuccess)
        return cudaSuccess;
    cudaGetLastError();
    return take_room(room, bytes);
}

/* Copies the items' masks to the room, and fills the table of masks. Masks of different items may differ in shape. */
static void fill_masks(struct upload *upload, const struct batch *batch, const struct batch_shape *shape, int input)
{
    struct score_mask *masks = (struct score_mask *)(upload->host + upload->masks[input]);
    struct mask_room *room = &upload->room;
    memset(masks, 0, (size_t)shape->n_items * sizeof *masks);
    for (int64_t i = 0; i < batch->n_items; i++) {
        const struct engine_item *item = &batch->items[i];
        size_t bytes = mask_bytes(item, input);
        if (!item->inputs[input].data)
            continue;
        masks[i].floats = item->inputs[input].floats;
        masks[i].length = item->inputs[input].length;
        masks[i].rows_per_head = item->inputs[input].n_masks ? item->inputs[input].length : 0;
        masks[i].data = room->device + room->used;
        memcpy(room->host + room->used, item->inputs[input].data, bytes);
        room->used += aligned(bytes);
    }
    upload->score_masks[input] = (const struct score_mask *)(upload->device + upload->masks[input]);
}

cudaError_t upload_fill(struct upload *upload, const struct plan *plan, const struct batch *batch,
                        const struct batch_shape *shape)
{
    cudaError_t status = make_room(&upload->room, plan, batch);
    if (status != cudaSuccess)
        return status;
    lay_out(upload, plan, shape);
    for (int i = 0; i < plan->n_axes; i++)
        fill_axis(upload, plan, batch, shape, i);
    fill_items(upload, plan, batch, shape);
    for (int i = 0; i < plan->n_inputs; i++) {
        int value = plan->inputs[i].value;
        if (is_score_mask(&plan->inputs[i]))
            fill_masks(upload, batch, shape, i);
        if (value == PLAN_NONE)
            continue;
        char *rows = upload->host + upload->rows[i];
        size_t used = (size_t)(batch->layouts[plan->values[value].axis].item_starts[batch->n_items] *
                               plan->values[value].columns) *
                      sizeof(float);
        padder_gather(plan, batch, i, rows);
        memset(rows + used, 0, input_bytes(plan, shape, i) - used);
    }
    return cudaSuccess;
}

cudaError_t upload_send(const struct upload *upload, cudaStream_t stream)
{
    const struct mask_room *room = &upload->room;
    cudaError_t status = cudaSuccess;
    if (room->used > 0)
        status = cudaMemcpyAsync(room->device, room->host, room->used, cudaMemcpyHostToDevice, stream);
    if (status != cudaSuccess)
        return status;
    return cudaMemcpyAsync(upload->device, upload->host, upload->used, cudaMemcpyHostToDevice, stream);
}

void upload_describe(const struct upload *upload, struct cuda_run *run)
{
    run->axes = upload->on_device;
    run->masks = upload->score_masks;
    run->items = (const struct device_item *)(upload->device + upload->items);
    run->sizes = (const int64_t *)(upload->device + upload->sizes);
    run->wanted = (const struct wanted_row *)(upload->device + upload->wanted);
}

/* ---- On the device ---- */

template <typename From, typename T> static __global__ void place_input(int64_t elements, const From *from, T *to)
{
    int64_t i = thread_of_grid();
    if (i >= elements)
        return;
    if constexpr (std::is_same_v<From, T>)
        to[i] = from[i];
    else
        to[i] = of_float<T>(from[i]);
}

template <typename From, typename T>
static void place_rows(const struct upload *upload, struct cuda_run *run, int input)
{
    int value = run->plan->inputs[input].value;
    int64_t elements = rows_of(run, value) * columns_of(run, value);
    launch(run, place_input<From, T>, parts_of(elements, THREADS), 1, THREADS, elements,
           (const From *)(upload->device + upload->rows[input]), elements_of<T>(run, value));
}

/* Rows of floats are rounded to elements. Ids and masks are copied. */
void upload_place_inputs(const struct upload *upload, struct cuda_run *run)
{
    for (int i = 0; i < run->plan->n_inputs; i++) {
        int value = run->plan->inputs[i].value;
        if (value == PLAN_NONE)
            continue;
        if (run->plan->values[value].ids)
            place_rows<int32_t, int32_t>(upload, run, i);
        else if (run->dtype == DTYPE_BF16)
            place_rows<float, bf16>(upload, run, i);
        else if (run->dtype == DTYPE_F16)
            place_rows<float, f16>(upload, run, i);
        else
            place_rows<float, float>(upload, run, i);
    }
}
