#include "engine/cuda/results.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256 /* of each array of results, in bytes */
#ifndef RESULTS_BYTES
/* Maximum size of the block in bytes, unless a row is larger. Larger results are copied through the halves. */
#define RESULTS_BYTES ((size_t)64 << 20)
#endif
#ifndef PIECES
#define PIECES 4096 /* maximum number of pieces in a half */
#endif

struct results_piece {
    void *to;
    size_t bytes;
};

static size_t place(size_t *used, int64_t rows, int64_t columns, bool wanted)
{
    size_t offset = *used, bytes = wanted ? (size_t)(rows * columns) * sizeof(float) : 0;
    *used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return offset;
}

/* Sets the offsets of tensors. The number of rows of a tensor is that of its value in the shape. */
static void lay_out_tensors(struct results *results, const struct plan *plan, const struct batch_shape *shape,
                            size_t *used)
{
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        if (step->operation != OP_GIVE_TENSOR)
            continue;
        const struct plan_value *x = &plan->values[step->x];
        int output = step->give_tensor.output;
        results->tensors[output] = place(used, shape->rows[x->axis], x->columns, shape_wants_tensor(shape, output));
    }
}

/* Sets the offsets of all results. Returns the size of all results in bytes. */
static size_t lay_out(struct results *results, const struct plan *plan, const struct batch_shape *shape)
{
    size_t used = 0;
    lay_out_tensors(results, plan, shape, &used);
    if (plan->hidden_axis == PLAN_NONE)
        return used;
    results->top_k = shape->top_k;
    results->hidden_columns = plan->hidden_columns;
    results->output_columns = plan->output_columns;
    results->pooled = place(&used, shape->n_items, plan->hidden_columns, shape->pooled);
    results->hidden = place(&used, shape->rows[plan->hidden_axis], plan->hidden_columns, shape->hidden);
    results->output = place(&used, shape->n_wanted, plan->output_columns, shape->output);
    results->top_values = place(&used, shape->n_wanted, shape->top_k, true);
    results->top_columns = place(&used, shape->n_wanted, shape->top_k, true);
    results->log_probabilities = place(&used, shape->n_wanted, 1, shape->targets);
    return used;
}

static int open_halves(struct results *results, struct error *error)
{
    for (int i = 0; i < 2; i++) {
        struct results_half *half = &results->halves[i];
        half->host = results->host + (size_t)i * (results->bytes / 2);
        half->pieces = (struct results_piece *)calloc(PIECES, sizeof *half->pieces);
        if (!half->pieces)
            return error_set(error, "the host is out of memory while preparing a model");
        if (cuda_open_event(&half->is_there, cudaEventBlockingSync | cudaEventDisableTiming, error) != 0)
            return -1;
    }
    return 0;
}

/* The size in bytes of the longest row that is copied through the halves. It is a row of the last hidden state, or of a
 * tensor. */
static size_t longest_row(const struct plan *plan)
{
    int64_t columns = plan->hidden_columns;
    for (int i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].operation == OP_GIVE_TENSOR)
            columns = most(columns, plan->values[plan->steps[i].x].columns);
    return (size_t)columns * sizeof(float);
}

int results_open(const struct plan *plan, struct results *results, struct error *error)
{
    struct batch_shape largest;
    results->tensors = (size_t *)calloc((size_t)plan->n_outputs + 1, sizeof *results->tensors);
    if (!results->tensors)
        return error_set(error, "the host is out of memory while preparing a model");
    if (shape_open(plan, &largest, error) != 0)
        return -1;
    shape_of_largest(plan, &largest);
    size_t all = lay_out(results, plan, &largest);
    shape_free(&largest);
    size_t row = longest_row(plan), most = row > RESULTS_BYTES ? row : RESULTS_BYTES;
    results->bytes = all < most ? all : most;
    if (cuda_take_memory((void **)&results->device, results->bytes, "results", error) != 0)
        return -1;
    cudaError_t status = cudaMallocHost((void **)&results->host, results->bytes);
    if (status == cudaSuccess)
        return open_halves(results, error);
    results->host = NULL;
    char what[128];
    snprintf(what, sizeof what, "cannot allocate %zu bytes of pinned memory of the host for results", results->bytes);
    return cuda_fail(error, what, status);
}

void results_free(struct results *results)
{
    for (struct results_half &half : results->halves) {
        free(half.pieces);
        if (half.is_there)
            cudaEventDestroy(half.is_there);
    }
    free(results->tensors);
    cudaFree(results->device);
    cudaFreeHost(results->host);
}

void results_lay_out(struct results *results, const struct plan *plan, const struct batch_shape *shape)
{
    results->fit = lay_out(results, plan, shape) <= results->bytes;
}

/* ---- From the device to the host ---- */

/* Copies elements [first, first + count) of the array at the offset to the host. */
static cudaError_t fetch(const struct results *results, size_t offset, int64_t first, int64_t count,
                         cudaStream_t stream)
{
    if (count == 0)
        return cudaSuccess;
    offset += (size_t)first * sizeof(float);
    return cudaMemcpyAsync(results->host + offset, results->device + offset, (size_t)count * sizeof(float),
                           cudaMemcpyDeviceToHost, stream);
}

/* Copies the hidden rows, with one copy for each group of neighbouring items that request them. */
static cudaError_t fetch_hidden(const struct results *results, const struct plan *plan, const struct batch *batch,
                                cudaStream_t stream)
{
    const int64_t *starts = batch->layouts[plan->hidden_axis].item_starts;
    cudaError_t status = cudaSuccess;
    for (int64_t b = 0, behind; b < batch->n_items && status == cudaSuccess; b = behind + 1) {
        for (behind = b; behind < batch->n_items && batch->items[behind].hidden;)
            behind++;
        status = fetch(results, results->hidden, starts[b] * results->hidden_columns,
                       (starts[behind] - starts[b]) * results->hidden_columns, stream);
    }
    return status;
}

/* Copies the rows of each tensor, with one copy for each group of neighbouring items that request the tensor. */
static cudaError_t fetch_tensors(const struct results *results, const struct plan *plan, const struct batch *batch,
                                 cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        if (step->operation != OP_GIVE_TENSOR)
            continue;
        const struct plan_value *x = &plan->values[step->x];
        const int64_t *starts = batch->layouts[x->axis].item_starts;
        int output = step->give_tensor.output;
        for (int64_t b = 0, behind; b < batch->n_items && status == cudaSuccess; b = behind + 1) {
            for (behind = b; behind < batch->n_items && padder_tensor(&batch->items[behind], output);)
                behind++;
            status = fetch(results, results->tensors[output], starts[b] * x->columns,
                           (starts[behind] - starts[b]) * x->columns, stream);
        }
    }
    return status;
}

static bool wants_top(const struct engine_item *item)
{
    return item->top_k > 0;
}

static bool wants_whole_rows(const struct engine_item *item)
{
    return item->output && item->top_k == 0;
}

static bool wants_targets(const struct engine_item *item)
{
    return item->targets != NULL;
}

/* Copies an array with `columns` elements for each requested row. Copies only rows of items for which is_wanted returns
 * true. Neighbouring rows of such items are one copy. */
static cudaError_t fetch_rows(const struct results *results, const struct batch *batch,
                              bool (*is_wanted)(const struct engine_item *item), size_t offset, int64_t columns,
                              cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    for (int64_t r = 0, behind; r < batch->n_wanted && status == cudaSuccess; r = behind + 1) {
        for (behind = r; behind < batch->n_wanted && is_wanted(&batch->items[batch->wanted[behind].item]);)
            behind++;
        status = fetch(results, offset, r * columns, (behind - r) * columns, stream);
    }
    return status;
}

/* Copies requested rows, their largest columns and their log-probabilities. */
static cudaError_t fetch_output(const struct results *results, const struct batch *batch, cudaStream_t stream)
{
    cudaError_t status = fetch_rows(results, batch, wants_whole_rows, results->output, results->output_columns, stream);
    if (status == cudaSuccess)
        status = fetch_rows(results, batch, wants_top, results->top_values, results->top_k, stream);
    if (status == cudaSuccess)
        status = fetch_rows(results, batch, wants_top, results->top_columns, results->top_k, stream);
    return status == cudaSuccess ? fetch_rows(results, batch, wants_targets, results->log_probabilities, 1, stream)
                                 : status;
}

static bool pools(const struct batch *batch)
{
    for (int64_t b = 0; b < batch->n_items; b++)
        if (batch->items[b].pooled)
            return true;
    return false;
}

cudaError_t results_fetch(const struct results *results, const struct plan *plan, const struct batch *batch,
                          cudaStream_t stream)
{
    cudaError_t status = cudaSuccess;
    if (!results->fit)
        return status;
    if (plan->n_outputs > 0)
        return fetch_tensors(results, plan, batch, stream);
    if (pools(batch))
        status = fetch(results, results->pooled, 0, batch->n_items * results->hidden_columns, stream);
    if (status == cudaSuccess)
        status = fetch_hidden(results, plan, batch, stream);
    return status == cudaSuccess ? fetch_output(results, batch, stream) : status;
}

/* ---- From the host to the items ---- */

static const float *at(const struct results *results, size_t offset, int64_t element)
{
    return (const float *)(results->host + offset) + element;
}

static void deliver_row(const struct results *results, const struct engine_item *item, int64_t row, int64_t index)
{
    int64_t k = item->top_k, columns = results->output_columns;
    if (item->targets)
        item->log_probabilities[index] = *at(results, results->log_probabilities, row);
    if (wants_whole_rows(item))
        memcpy(item->output + index * columns, at(results, results->output, row * columns),
               (size_t)columns * sizeof(float));
    if (!wants_top(item))
        return;
    memcpy(item->top_values + index * k, at(results, results->top_values, row * results->top_k),
           (size_t)k * sizeof(float));
    memcpy(item->top_columns + index * k, at(results, results->top_columns, row * results->top_k),
           (size_t)k * sizeof(int32_t));
}

static void deliver_tensors(const struct results *results, const struct plan *plan, const struct batch *batch)
{
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        if (step->operation != OP_GIVE_TENSOR)
            continue;
        const struct plan_value *x = &plan->values[step->x];
        const int64_t *starts = batch->layouts[x->axis].item_starts;
        for (int64_t b = 0; b < batch->n_items; b++) {
            float *tensor = padder_tensor(&batch->items[b], step->give_tensor.output);
            if (tensor)
                memcpy(tensor, at(results, results->tensors[step->give_tensor.output], starts[b] * x->columns),
                       (size_t)((starts[b + 1] - starts[b]) * x->columns) * sizeof(float));
        }
    }
}

void results_deliver(const struct results *results, const struct plan *plan, const struct batch *batch)
{
    int64_t columns = results->hidden_columns;
    if (results->fit)
        deliver_tensors(results, plan, batch);
    if (plan->hidden_axis == PLAN_NONE)
        return;
    for (int64_t b = 0; results->fit && b < batch->n_items; b++) {
        const struct engine_item *item = &batch->items[b];
        if (item->pooled)
            memcpy(item->pooled, at(results, results->pooled, b * columns), (size_t)columns * sizeof(float));
        if (item->hidden)
            memcpy(item->hidden,
                   at(results, results->hidden, batch->layouts[plan->hidden_axis].item_starts[b] * columns),
                   (size_t)(padder_own_rows(plan, item, plan->hidden_axis) * columns) * sizeof(float));
    }
    for (int64_t r = 0; results->fit && r < batch->n_wanted; r++)
        deliver_row(results, &batch->items[batch->wanted[r].item], r, batch->wanted[r].index);
}

/* ---- Through the halves ---- */

/* Copies the pieces of the half to the items, and empties the half. If the batch failed, nothing is copied. */
static void complete_copies(struct cuda_run *run, struct results_half *half)
{
    const char *from = half->host;
    if (half->n_pieces > 0 && has_not_failed(run))
        note(run, cudaEventSynchronize(half->is_there));
    for (int i = 0; i < half->n_pieces && has_not_failed(run); i++) {
        memcpy(half->pieces[i].to, from, half->pieces[i].bytes);
        from += half->pieces[i].bytes;
    }
    half->used = 0;
    half->n_pieces = 0;
}

void results_copy(struct cuda_run *run, void *to, const void *from, int64_t bytes)
{
    struct results *results = run->results;
    for (int64_t done = 0, piece; done < bytes && has_not_failed(run); done += piece) {
        struct results_half *half = &results->halves[results->filling];
        if (half->used == results->bytes / 2 || half->n_pieces == PIECES) {
            results->filling = 1 - results->filling;
            half = &results->halves[results->filling];
            complete_copies(run, half);
        }
        piece = least(bytes - done, (int64_t)(results->bytes / 2 - half->used));
        note(run, cudaMemcpyAsync(half->host + half->used, (const char *)from + done, (size_t)piece,
                                  cudaMemcpyDeviceToHost, run->stream));
        note(run, cudaEventRecord(half->is_there, run->stream));
        half->pieces[half->n_pieces++] = {(char *)to + done, (size_t)piece};
        half->used += (size_t)piece;
    }
}

void results_complete_copies(struct cuda_run *run)
{
    struct results *results = run->results;
    if (!results) /* the batch failed before results were laid out */
        return;
    complete_copies(run, &results->halves[1 - results->filling]);
    complete_copies(run, &results->halves[results->filling]);
}
