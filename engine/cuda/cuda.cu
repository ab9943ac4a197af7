/* The CUDA backend: one device, one stream. A model's weights are uploaded once; its activations lie in one arena at
 * the plan's offsets. Of each batch inputs, layouts and masks are copied up from pinned memory, the plan's steps follow
 * on the stream, and results are copied down. The host lays out and reads the batch alone; it never waits but at the
 * end. */
#include "engine/cuda/products.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 256 /* bytes */

struct backend {
    cudaStream_t stream;
    struct products *products;
    char description[320];
};

/* A piece of a batch's upload: pinned memory of the host, and its place on the device. */
struct upload {
    char *host, *device;
    size_t bytes, used;
};

struct backend_model {
    struct backend *backend;
    const struct plan *plan;
    struct cuda_run run; /* all but the batch */
    float **weights;     /* of the device, by weight */
    size_t weights_bytes, scratch_bytes;
    struct device_axis *axes;
    const struct score_mask **masks; /* by input */
    struct upload upload;
};

static size_t aligned(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int fail(struct error *error, const char *what, cudaError_t status)
{
    cudaGetLastError(); /* it would be reported again */
    return error_set(error, "%s: %s", what, cudaGetErrorString(status));
}

/* ---- Opening ---- */

static int describe(struct backend *backend, struct error *error)
{
    struct cudaDeviceProp properties;
    cudaError_t status = cudaGetDeviceProperties(&properties, 0);
    if (status != cudaSuccess)
        return fail(error, "the CUDA device cannot be asked what it is", status);
    snprintf(backend->description, sizeof backend->description, "%s, compute capability %d.%d, cuBLASLt %zu",
             properties.name, properties.major, properties.minor, cublasLtGetVersion());
    return 0;
}

/* Without a driver, or with an old one, the count is not written. */
static int choose_device(struct error *error)
{
    int count = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess)
        return fail(error, "no CUDA device", status);
    if (count < 1)
        return error_set(error, "no CUDA device");
    status = cudaSetDevice(0);
    return status == cudaSuccess ? 0 : fail(error, "the CUDA device cannot be used", status);
}

static void close_cuda(struct backend *backend)
{
    if (backend->products)
        products_close(backend->products);
    if (backend->stream)
        cudaStreamDestroy(backend->stream);
    free(backend);
}

static int open_cuda(const struct engine_options *options, struct backend **backend, struct error *error)
{
    if (strcmp(options->dtype, "auto") != 0 && strcmp(options->dtype, "f32") != 0)
        return error_set(error, "dtype \"%s\": expected auto or f32; the CUDA engine computes in f32 only",
                         options->dtype);
    if (choose_device(error) != 0)
        return -1;
    struct backend *opened = (struct backend *)calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "out of memory while opening the CUDA engine");
    cudaError_t status = cudaStreamCreateWithFlags(&opened->stream, cudaStreamNonBlocking);
    if (status != cudaSuccess) {
        opened->stream = NULL;
        fail(error, "no stream on the CUDA device", status);
        goto fail;
    }
    if (describe(opened, error) != 0 || products_open(&opened->products, error) != 0)
        goto fail;
    *backend = opened;
    return 0;
fail:
    close_cuda(opened);
    return -1;
}

static const char *kernels(const struct backend *backend)
{
    return backend->description;
}

/* cuBLASLt chooses other kernels for other row counts. */
static bool batch_invariant(const struct backend *)
{
    return false;
}

static bool has_operation(enum operation operation)
{
    return cuda_operation_of(operation)->run != NULL;
}

/* ---- Preparing ---- */

static void unprepare(struct backend_model *model)
{
    for (int i = 0; model->weights && i < model->plan->n_weights; i++)
        cudaFree(model->weights[i]);
    free(model->weights);
    cudaFree(model->run.arena);
    cudaFree(model->run.scratch);
    cudaFree(model->upload.device);
    cudaFreeHost(model->upload.host);
    free(model->axes);
    free(model->masks);
    free(model);
}

static int take_memory(void **memory, size_t bytes, const char *what, struct error *error)
{
    cudaError_t status = cudaMalloc(memory, bytes);
    if (status == cudaSuccess)
        return 0;
    *memory = NULL;
    cudaGetLastError();
    return error_set(error, "%s of %zu bytes on the CUDA device: %s", what, bytes, cudaGetErrorString(status));
}

static int upload_weights(struct backend_model *model, struct error *error)
{
    const struct plan *plan = model->plan;
    for (int i = 0; i < plan->n_weights; i++) {
        const struct plan_weight *weight = &plan->weights[i];
        size_t bytes = (size_t)(weight->rows * weight->columns) * sizeof(float);
        if (!weight->data || bytes == 0) /* a pass made another of it */
            continue;
        if (take_memory((void **)&model->weights[i], bytes, "a weight", error) != 0)
            return -1;
        model->weights_bytes += bytes;
        cudaError_t status =
            cudaMemcpyAsync(model->weights[i], weight->data, bytes, cudaMemcpyHostToDevice, model->backend->stream);
        if (status != cudaSuccess)
            return fail(error, "copying weights to the CUDA device", status);
    }
    cudaError_t status = cudaStreamSynchronize(model->backend->stream);
    return status == cudaSuccess ? 0 : fail(error, "copying weights to the CUDA device", status);
}

/* Bytes of all items' masks of an input in the largest batch: a row of each of `n_masks` for each row of what it is
 * like, in floats, and what brings each item's to a border. */
static size_t mask_bytes(const struct plan *plan, const struct plan_input *input)
{
    const struct model_input *mask = &input->input;
    int64_t columns = mask->columns ? mask->columns : plan->max_rows;
    return (size_t)(most(1, mask->n_masks) * plan->max_rows * columns) * sizeof(float) +
           (size_t)plan->max_items * (sizeof(struct score_mask) + ALIGNMENT);
}

static bool is_score_mask(const struct plan_input *input)
{
    return input->value == PLAN_NONE && input->input.kind == INPUT_ATTENTION_MASK;
}

/* Of the largest batch. */
static size_t upload_bytes(const struct plan *plan)
{
    size_t bytes = aligned((size_t)plan->max_rows * sizeof(struct wanted_row)) +
                   aligned((size_t)plan->max_items * sizeof(struct device_item));
    for (int i = 0; i < plan->n_axes; i++) {
        const struct plan_axis *axis = &plan->axes[i];
        int64_t rows = axis->joined               ? plan->max_rows
                       : axis->input == PLAN_NONE ? axis->rows_per_item * plan->max_items
                       : axis->n                  ? plan->max_rows / axis->n * axis->k
                                                  : plan->max_rows;
        int64_t blocks = rows / PADDER_BLOCK_ROWS + plan->max_items + 1;
        bytes += 2 * aligned((size_t)(plan->max_items + 1) * sizeof(int64_t)) +
                 aligned(axis->wanted ? (size_t)rows * sizeof(int32_t) : 0) +
                 aligned((size_t)blocks * sizeof(struct row_block));
    }
    for (int i = 0; i < plan->n_inputs; i++) {
        if (is_score_mask(&plan->inputs[i]))
            bytes += aligned(mask_bytes(plan, &plan->inputs[i]));
        else if (plan->inputs[i].value != PLAN_NONE)
            bytes += aligned(plan->values[plan->inputs[i].value].bytes);
    }
    return bytes;
}

static int64_t scratch_floats(const struct plan *plan)
{
    int64_t floats = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const struct cuda_operation *operation = cuda_operation_of(plan->steps[i].operation);
        if (operation->scratch)
            floats = most(floats, operation->scratch(plan, &plan->steps[i]));
    }
    return floats;
}

static int reserve(struct backend_model *model, struct error *error)
{
    const struct plan *plan = model->plan;
    model->run.scratch_floats = scratch_floats(plan);
    model->upload.bytes = upload_bytes(plan);
    model->scratch_bytes = (size_t)model->run.scratch_floats * sizeof(float) + model->upload.bytes;
    if (take_memory((void **)&model->run.arena, plan->arena_bytes, "the arena", error) != 0 ||
        take_memory((void **)&model->run.scratch, (size_t)model->run.scratch_floats * sizeof(float), "scratch",
                    error) != 0 ||
        take_memory((void **)&model->upload.device, model->upload.bytes, "inputs", error) != 0)
        return -1;
    cudaError_t status = cudaMallocHost((void **)&model->upload.host, model->upload.bytes);
    if (status != cudaSuccess) {
        model->upload.host = NULL;
        return fail(error, "out of pinned memory for inputs", status);
    }
    return 0;
}

static int prepare(struct backend *backend, struct plan *plan, struct backend_model **model, struct error *error)
{
    struct backend_model *prepared = (struct backend_model *)calloc(1, sizeof *prepared);
    if (!prepared)
        return error_set(error, "out of memory while preparing a model");
    prepared->backend = backend;
    prepared->plan = plan;
    prepared->weights = (float **)calloc((size_t)plan->n_weights + 1, sizeof *prepared->weights);
    prepared->axes = (struct device_axis *)calloc((size_t)plan->n_axes + 1, sizeof *prepared->axes);
    prepared->masks = (const struct score_mask **)calloc((size_t)plan->n_inputs + 1, sizeof *prepared->masks);
    prepared->run.plan = plan;
    prepared->run.products = backend->products;
    prepared->run.stream = backend->stream;
    prepared->run.weights = prepared->weights;
    prepared->run.axes = prepared->axes;
    prepared->run.masks = prepared->masks;
    if (!prepared->weights || !prepared->axes || !prepared->masks) {
        error_set(error, "out of memory while preparing a model");
        goto fail;
    }
    if (reserve(prepared, error) != 0 || upload_weights(prepared, error) != 0)
        goto fail;
    for (int i = 0; i < plan->n_weights; i++) { /* last: on failure the CPU may still want them */
        free(plan->weights[i].data);
        plan->weights[i].data = NULL;
    }
    *model = prepared;
    return 0;
fail:
    unprepare(prepared);
    return -1;
}

static size_t weights_bytes(const struct backend_model *model)
{
    return model->weights_bytes;
}

static size_t scratch_bytes(const struct backend_model *model)
{
    return model->scratch_bytes;
}

/* ---- Running ---- */

/* Room for so many bytes in the batch's upload; where they will be on the device is in *device. */
static void *upload_room(struct backend_model *model, size_t bytes, const void **device)
{
    void *host = model->upload.host + model->upload.used;
    *device = model->upload.device + model->upload.used;
    model->upload.used += aligned(bytes);
    return host;
}

static const void *upload_copy(struct backend_model *model, const void *data, size_t bytes)
{
    const void *device;
    void *room = upload_room(model, bytes, &device);
    if (bytes > 0)
        memcpy(room, data, bytes);
    return device;
}

static void upload_layouts(struct backend_model *model, const struct batch *batch)
{
    for (int i = 0; i < model->plan->n_axes; i++) {
        const struct layout *layout = &batch->layouts[i];
        model->axes[i].starts =
            (const int64_t *)upload_copy(model, layout->starts, (size_t)(batch->n_items + 1) * sizeof *layout->starts);
        const void *device;
        int64_t *lengths = (int64_t *)upload_room(model, (size_t)batch->n_items * sizeof *lengths, &device);
        for (int64_t b = 0; b < batch->n_items; b++)
            lengths[b] = padder_axis_rows(model->plan, &batch->items[b], i);
        model->axes[i].lengths = (const int64_t *)device;
        model->axes[i].positions = NULL;
        if (layout->positions)
            model->axes[i].positions = (const int32_t *)upload_copy(
                model, layout->positions, (size_t)layout->starts[batch->n_items] * sizeof *layout->positions);
        model->axes[i].blocks = (const struct row_block *)upload_copy(
            model, layout->blocks, (size_t)layout->n_blocks * sizeof *layout->blocks);
    }
}

static void upload_items(struct backend_model *model, struct cuda_run *run)
{
    const struct batch *batch = run->batch;
    const void *device;
    int hidden = model->plan->hidden_axis;
    struct device_item *items =
        (struct device_item *)upload_room(model, (size_t)batch->n_items * sizeof *items, &device);
    for (int64_t i = 0; i < batch->n_items; i++) {
        items[i].own_rows = padder_length(model->plan, &batch->items[i], model->plan->axes[hidden].input);
        items[i].first = padder_row(&batch->layouts[hidden], i, 0);
        items[i].last = padder_row(&batch->layouts[hidden], i, items[i].own_rows - 1);
        items[i].pooling = batch->items[i].pooling;
    }
    run->items = (const struct device_item *)device;
    run->wanted =
        (const struct wanted_row *)upload_copy(model, batch->wanted, (size_t)batch->n_wanted * sizeof *batch->wanted);
}

/* The items' masks of the scores, in whatever shape each of them has. */
static void upload_masks(struct backend_model *model, const struct batch *batch, int input)
{
    const void *device;
    struct score_mask *masks = (struct score_mask *)upload_room(model, (size_t)batch->n_items * sizeof *masks, &device);
    for (int64_t i = 0; i < batch->n_items; i++) {
        const struct engine_item *item = &batch->items[i];
        int64_t count = most(1, item->inputs[input].n_masks), length = item->inputs[input].length;
        size_t bytes = (size_t)(count * length * item->inputs[input].columns);
        memset(&masks[i], 0, sizeof masks[i]);
        if (!item->inputs[input].data)
            continue;
        masks[i].floats = item->inputs[input].floats;
        masks[i].length = length;
        masks[i].each = item->inputs[input].n_masks ? length : 0;
        masks[i].data = upload_copy(model, item->inputs[input].data, bytes * (masks[i].floats ? sizeof(float) : 1));
    }
    model->masks[input] = (const struct score_mask *)device;
}

/* All that stays where it is uploaded to: one copy. */
static void upload_tables(struct backend_model *model, struct cuda_run *run)
{
    model->upload.used = 0;
    upload_layouts(model, run->batch);
    upload_items(model, run);
    for (int i = 0; i < model->plan->n_inputs; i++)
        if (is_score_mask(&model->plan->inputs[i]))
            upload_masks(model, run->batch, i);
    note(run, cudaMemcpyAsync(model->upload.device, model->upload.host, model->upload.used, cudaMemcpyHostToDevice,
                              run->stream));
}

/* Inputs go to their places in the arena. */
static void upload_inputs(struct backend_model *model, struct cuda_run *run)
{
    const struct plan *plan = model->plan;
    for (int i = 0; i < plan->n_inputs; i++) {
        int value = plan->inputs[i].value;
        const void *unused;
        if (value == PLAN_NONE)
            continue;
        size_t bytes = (size_t)(rows_of(run, value) * columns_of(run, value)) * sizeof(float);
        void *rows = upload_room(model, bytes, &unused);
        padder_gather(plan, run->batch, i, rows);
        if (run->status == cudaSuccess)
            note(run, cudaMemcpyAsync(floats_of(run, value), rows, bytes, cudaMemcpyHostToDevice, run->stream));
    }
}

float *cuda_wanted_attention(const struct engine_item *item, const struct plan_step *step)
{
    for (int i = 0; i < item->n_extras; i++)
        if (item->extras[i].output == 1 + step->attention)
            return item->extras[i].data;
    return NULL;
}

void cuda_copy_out(struct cuda_run *run, void *to, const void *from, int64_t bytes)
{
    if (bytes > 0 && run->status == cudaSuccess)
        note(run, cudaMemcpyAsync(to, from, (size_t)bytes, cudaMemcpyDeviceToHost, run->stream));
}

static int run_batch(struct backend_model *model, const struct batch *batch, struct error *error)
{
    struct cuda_run run = model->run;
    run.batch = batch;
    upload_tables(model, &run);
    upload_inputs(model, &run);
    for (int i = 0; i < model->plan->n_steps; i++)
        cuda_operation_of(model->plan->steps[i].operation)->run(&run, &model->plan->steps[i]);
    note(&run, cudaStreamSynchronize(run.stream)); /* also after a failure: the stream may still write results */
    if (run.status != cudaSuccess)
        return fail(error, "the CUDA device failed", run.status);
    return run.product_failed ? error_set(error, "cuBLASLt refused a product of matrices") : 0;
}

static const struct backend_functions backend_cuda = {
    .name = "cuda",
    .open = open_cuda,
    .close = close_cuda,
    .kernels = kernels,
    .batch_invariant = batch_invariant,
    .has_operation = has_operation,
    .prepare = prepare,
    .unprepare = unprepare,
    .weights_bytes = weights_bytes,
    .scratch_bytes = scratch_bytes,
    .run = run_batch,
};

/* What the daemon looks up in this object. NULL: it was built from other sources than these. */
extern "C" __attribute__((visibility("default"))) const struct backend_functions *linformerd_backend(uint64_t abi)
{
    return abi == backend_abi() ? &backend_cuda : NULL;
}
