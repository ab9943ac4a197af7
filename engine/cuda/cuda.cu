/* cuda: the CUDA backend. The file opens a device, makes models resident, and contains the table of the backend's
 * functions.
 *
 * A model's weights are uploaded once. Its activations are in one arena, at the offsets that the plan states. The arena
 * is allocated when the model is loaded. A batch is processed as follows:
 *     1. It is laid out in the pinned memory of a lane, and copied to the device (upload.h).
 *     2. The plan's steps are launched. The launches depend on the shape of the batch (shape.h), and batches of the
 *        same shape replay a CUDA graph (graphs.h).
 *     3. The results are copied to the host, and there to the items (results.h).
 * The three stages run on three streams. So the batch of one lane is copied while the batch of another lane is computed
 * (lane.h). The operations are in the other .cu files, and operations.cu lists them. */
#include "engine/cuda/fusion.h"
#include "engine/cuda/lane.h"
#include "engine/cuda/weights.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>

struct backend_model {
    struct backend *backend;
    const struct plan *plan;
    struct cuda_run run; /* members that are the same for all batches */
    struct cuda_launch *launches;
    struct device_weights weights;
    size_t scratch_bytes;
    struct cuda_lane lanes[LANES];
};

int cuda_fail(struct error *error, const char *what, cudaError_t status)
{
    cudaGetLastError(); /* clears the error. Otherwise a later call would report it again */
    return error_set(error, "%s: %s", what, cudaGetErrorString(status));
}

int cuda_take_memory(void **memory, size_t bytes, const char *what, struct error *error)
{
    cudaError_t status = cudaMalloc(memory, bytes);
    if (status == cudaSuccess)
        return 0;
    *memory = NULL;
    cudaGetLastError();
    return error_set(error, "cannot allocate %zu bytes on the CUDA device for %s: %s", bytes, what,
                     cudaGetErrorString(status));
}

int cuda_open_event(cudaEvent_t *event, unsigned flags, struct error *error)
{
    cudaError_t status = cudaEventCreateWithFlags(event, flags);
    if (status == cudaSuccess)
        return 0;
    *event = NULL;
    return cuda_fail(error, "cannot create an event on the CUDA device", status);
}

/* ---- Opening ---- */

static int describe(struct backend *backend, struct error *error)
{
    struct cudaDeviceProp properties;
    cudaError_t status = cudaGetDeviceProperties(&properties, backend->device);
    if (status != cudaSuccess)
        return cuda_fail(error, "cannot read the properties of the CUDA device", status);
    backend->processors = properties.multiProcessorCount;
    backend->shared_bytes = properties.sharedMemPerBlockOptin;
    backend->shared_by_two = properties.sharedMemPerMultiprocessor / 2 - properties.reservedSharedMemPerBlock;
    snprintf(backend->description, sizeof backend->description, "%s, compute capability %d.%d, cuBLASLt %zu",
             properties.name, properties.major, properties.minor, cublasLtGetVersion());
    return 0;
}

static __global__ void any_kernel()
{
}

/* Checks that the engine contains kernels for the device. The build chooses the kinds of devices (CUDA_ARCHS). On any
 * other device, each launch would fail. */
static int check_kernels(const struct backend *backend, struct error *error)
{
    cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, any_kernel);
    if (status == cudaSuccess)
        return 0;
    cudaGetLastError();
    return error_set(error, "%s: the CUDA engine was not compiled for this device: %s", backend->description,
                     cudaGetErrorString(status));
}

/* Names the CUDA version that the driver supports, and the CUDA version that the engine was built with. Versions are
 * numbers like 12040 for 12.4. Within a major version, an older driver suffices. */
static int fail_driver(int driver, struct error *error)
{
    int built = CUDART_VERSION;
    cudaGetLastError();
    return error_set(
        error,
        "no CUDA device: the NVIDIA driver is too old. It supports CUDA %d.%d, and the engine was built with "
        "CUDA %d.%d, which needs a driver for CUDA %d.0 or later",
        driver / 1000, driver % 1000 / 10, built / 1000, built % 1000 / 10, built / 1000);
}

/* cudaGetDeviceCount does not write the count if there is no driver, or an old driver. */
static int count_devices(struct error *error)
{
    int count = 0, driver = 0;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess && driver > 0)
        return fail_driver(driver, error);
    if (status != cudaSuccess)
        return cuda_fail(error, "no CUDA device", status);
    return count >= 1 ? count : error_set(error, "no CUDA device");
}

/* Chooses the device for the calling thread. Each function of the backend that uses the device first calls this
 * function or return_to_device. The reason is that a thread keeps its device until it chooses another device. */
static int choose_device(const struct backend *backend, struct error *error)
{
    cudaError_t status = cudaSetDevice(backend->device);
    return status == cudaSuccess ? 0 : cuda_fail(error, "the CUDA device cannot be used", status);
}

/* Like choose_device, for functions that cannot fail. On a broken device, both calls may return an old error, although
 * the calls succeed. Returns false if the thread is still on another device, which may be a working device. */
static bool return_to_device(const struct backend *backend)
{
    int current = -1;
    cudaSetDevice(backend->device);
    cudaGetDevice(&current);
    cudaGetLastError();
    return current == backend->device;
}

static void note_failure(struct backend *backend)
{
    __atomic_store_n(&backend->failed, true, __ATOMIC_RELAXED);
}

/* Some errors stay in the context that the process has on the device. Only a reset removes them. Nothing but this
 * backend uses the context. */
static void close_cuda(struct backend *backend)
{
    bool there = return_to_device(backend);
    if (backend->products)
        cuda_products_close(backend->products);
    cudaStream_t streams[] = {backend->up, backend->compute, backend->down, backend->loading, backend->capturing};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++)
        if (streams[i])
            cudaStreamDestroy(streams[i]);
    pthread_mutex_destroy(&backend->submitting);
    if (there && __atomic_load_n(&backend->failed, __ATOMIC_RELAXED))
        cudaDeviceReset();
    free(backend);
}

static int open_streams(struct backend *backend, struct error *error)
{
    cudaStream_t *streams[] = {&backend->up, &backend->compute, &backend->down, &backend->loading, &backend->capturing};
    for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
        cudaError_t status = cudaStreamCreateWithFlags(streams[i], cudaStreamNonBlocking);
        if (status == cudaSuccess)
            continue;
        *streams[i] = NULL;
        return cuda_fail(error, "cannot create a stream on the CUDA device", status);
    }
    return 0;
}

static int open_cuda(const struct engine_options *options, int index, struct backend **backend, struct error *error)
{
    struct backend *opened = (struct backend *)calloc(1, sizeof *opened);
    if (!opened)
        return error_set(error, "out of memory while opening the CUDA engine");
    opened->device = index;
    if (choose_device(opened, error) != 0) {
        free(opened);
        return -1;
    }
    opened->dtype = options->dtype == DTYPE_AUTO ? DTYPE_BF16 : options->dtype;
    opened->split = opened->dtype == DTYPE_F32 && options->cuda_f32 == CUDA_F32_TENSOR;
    opened->tuning_ms = options->cuda_tuning_ms;
    pthread_mutex_init(&opened->submitting, NULL);
    if (open_streams(opened, error) != 0 || describe(opened, error) != 0 || check_kernels(opened, error) != 0 ||
        cuda_products_open(&opened->products, error) != 0)
        goto fail;
    *backend = opened;
    return 0;
fail:
    note_failure(opened);
    close_cuda(opened);
    return -1;
}

static const char *kernels(const struct backend *backend)
{
    return backend->description;
}

static enum dtype dtype(const struct backend *backend)
{
    return backend->dtype;
}

/* Returns false, because cuBLASLt chooses different algorithms for different numbers of rows. */
static bool batch_invariant(const struct backend *)
{
    return false;
}

static bool has_operation(enum operation operation)
{
    const struct cuda_operation *row = cuda_operation_of(DTYPE_F32, operation);
    return row->run && row->scratch && row->floats != FLOAT_UNDECLARED;
}

/* ---- Preparing ---- */

static void unprepare(struct backend_model *model)
{
    return_to_device(model->backend);
    weights_free_device(&model->weights);
    cudaFree(model->run.arena);
    cudaFree(model->run.scratch);
    cudaFree(model->run.slots);
    free(model->launches);
    for (int i = 0; i < LANES; i++)
        lane_free(&model->lanes[i]);
    free(model);
}

static int64_t scratch_floats(const struct plan *plan, enum dtype dtype)
{
    int64_t floats = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        const struct cuda_operation *operation = cuda_operation_of(dtype, plan->steps[i].operation);
        floats = most(floats, operation->scratch(plan, &plan->steps[i]));
    }
    return floats;
}

/* Allocates memory for the slots. The memory is not cleared, because the first rows of a sequence do not read their
 * slot. */
static int reserve_slots(struct backend_model *model, struct error *error)
{
    const struct plan *plan = model->plan;
    char what[128];
    size_t bytes; /* the product below may overflow, because config.json may contain a window of any size */
    if (plan->n_slots == 0)
        return 0;
    snprintf(what, sizeof what, "the states of %lld sequences (--max-generations)", (long long)plan->n_slots);
    if (__builtin_mul_overflow((size_t)plan->n_slots * sizeof(float), (size_t)plan->state_floats, &bytes))
        return error_set(error, "%s are too large: each has %lld floats, which depends on the sizes in config.json",
                         what, (long long)plan->state_floats);
    if (cuda_take_memory((void **)&model->run.slots, bytes, what, error) != 0)
        return -1;
    model->scratch_bytes += bytes;
    return 0;
}

static int reserve(struct backend_model *model, struct error *error)
{
    const struct plan *plan = model->plan;
    char arena[160];
    snprintf(arena, sizeof arena,
             "the arena, with batches of %lld rows (--max-batch-tokens) and %lld sequences (--max-batch-requests)",
             (long long)plan->max_rows, (long long)plan->max_items);
    model->run.scratch_floats = scratch_floats(plan, model->backend->dtype);
    if (cuda_take_memory((void **)&model->run.arena, plan->arena_bytes, arena, error) != 0 ||
        cuda_take_memory((void **)&model->run.scratch, (size_t)model->run.scratch_floats * sizeof(float), "scratch",
                         error) != 0)
        return -1;
    model->scratch_bytes = (size_t)model->run.scratch_floats * sizeof(float);
    for (int i = 0; i < LANES; i++) {
        if (lane_open(plan, &model->lanes[i], error) != 0)
            return -1;
        model->scratch_bytes += model->lanes[i].upload.bytes + model->lanes[i].results.bytes;
    }
    return reserve_slots(model, error);
}

static int warm_products(struct backend_model *model, struct error *error)
{
    struct cuda_run run = model->run;
    run.stream = model->backend->compute;
    run.submitting = &model->backend->submitting;
    run.tuning_milliseconds = (double)model->backend->tuning_ms;
    return cuda_products_warm(run, error);
}

extern const struct backend_functions backend_cuda; /* defined at the end of this file */

static int prepare(struct backend *backend, struct plan *plan, bool shared, struct backend_model **model,
                   struct error *error)
{
    if (backend_check_operations(&backend_cuda, plan, error) != 0)
        return -1;
    if (choose_device(backend, error) != 0) {
        note_failure(backend);
        return -1;
    }
    struct backend_model *prepared = (struct backend_model *)calloc(1, sizeof *prepared);
    if (!prepared)
        return error_set(error, "out of memory while preparing a model");
    prepared->backend = backend;
    prepared->plan = plan;
    prepared->run.plan = plan;
    prepared->run.products = backend->products;
    prepared->run.dtype = backend->dtype;
    prepared->run.split = backend->split;
    prepared->run.processors = backend->processors;
    prepared->run.shared_bytes = backend->shared_bytes;
    prepared->run.shared_by_two = backend->shared_by_two;
    prepared->run.launches = prepared->launches = fusion_find(plan, backend->dtype);
    if (!prepared->launches) {
        error_set(error, "out of memory while preparing a model");
        goto fail;
    }
    if (reserve(prepared, error) != 0 ||
        weights_to_device(&prepared->weights, plan, backend->dtype, backend->loading, error) != 0)
        goto fail;
    prepared->run.weights = prepared->weights.elements;
    prepared->run.float_weights = prepared->weights.floats;
    if (warm_products(prepared, error) != 0)
        goto fail;
    for (int i = 0; !shared && i < plan->n_weights; i++) {
        free(plan->weights[i].data);
        plan->weights[i].data = NULL;
    }
    *model = prepared;
    return 0;
fail:
    note_failure(backend);
    unprepare(prepared);
    return -1;
}

static size_t weights_bytes(const struct backend_model *model)
{
    return model->weights.bytes;
}

static size_t scratch_bytes(const struct backend_model *model)
{
    return model->scratch_bytes;
}

/* ---- Running ---- */

static int lanes(const struct backend_model *)
{
    return LANES;
}

static int run_batch(struct backend_model *model, int lane, const struct batch *batch, struct error *error)
{
    int result = choose_device(model->backend, error);
    if (result == 0)
        result = lane_run(&model->lanes[lane], model->backend, model->run, batch, error);
    if (result == -1)
        note_failure(model->backend);
    return result;
}

const struct backend_functions backend_cuda = {
    .name = "cuda",
    .count = count_devices,
    .open = open_cuda,
    .close = close_cuda,
    .kernels = kernels,
    .dtype = dtype,
    .batch_invariant = batch_invariant,
    .has_operation = has_operation,
    .prepare = prepare,
    .unprepare = unprepare,
    .lanes = lanes,
    .weights_bytes = weights_bytes,
    .scratch_bytes = scratch_bytes,
    .run = run_batch,
};

/* The symbol that the daemon looks up. Returns NULL if the daemon's interface differs (backend_abi). */
extern "C" __attribute__((visibility("default"))) const struct backend_functions *linformerd_backend(uint64_t abi)
{
    return abi == backend_abi() ? &backend_cuda : NULL;
}
