#include "engine/cuda/weights.h"

#include <stdlib.h>

#ifndef STAGED
#define STAGED ((int64_t)4 << 20) /* number of floats that the device rounds at a time */
#endif
#define THREADS 256
#define MIN_INFINITE_F16 65520.0f /* the smallest float that rounds to infinity in f16 */

enum reading { AS_ELEMENTS = 1, AS_FLOATS = 2 };

/* How the step reads the weight: a set of bits of enum reading. The set is empty if the step does not read the
 * weight. */
static int reading_of(const struct plan_step *step, int weight)
{
    enum float_weights floats = cuda_operation_of(DTYPE_F32, step->operation)->floats;
    const int elements[] = {step->weight, step->tail, step->second_weight, step->second_bias};
    int reading = step->bias != weight ? 0 : floats == FLOAT_NONE ? AS_ELEMENTS : AS_FLOATS;
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
        if (elements[i] == weight)
            reading |= floats == FLOAT_ALL ? AS_FLOATS : AS_ELEMENTS;
    return reading;
}

static int readings_of(const struct plan *plan, int weight)
{
    int readings = 0;
    for (int i = 0; i < plan->n_steps; i++)
        readings |= reading_of(&plan->steps[i], weight);
    return readings;
}

template <typename T> static __global__ void round_floats(int64_t count, const float *floats, T *elements)
{
    int64_t i = thread_of_grid();
    if (i < count)
        elements[i] = of_float<T>(floats[i]);
}

/* Refuses weights that are too large for f16. Weights that are infinite in the file are accepted. */
static int check_range(const struct plan_weight *weight, struct error *error)
{
    for (int64_t i = 0; i < weight->rows * weight->columns; i++)
        if (isfinite(weight->data[i]) && fabsf(weight->data[i]) >= MIN_INFINITE_F16)
            return error_set(
                error,
                "weight \"%s\": element %lld is %g, beyond f16's maximum of 65504; use --dtype bf16, tf32 or f32",
                weight->name ? weight->name : "", (long long)i, (double)weight->data[i]);
    return 0;
}

static cudaError_t launch_rounding(enum dtype dtype, int64_t count, const float *staged, void *elements,
                                   cudaStream_t stream)
{
    struct cuda_run run = {};
    run.stream = stream;
    if (dtype == DTYPE_BF16)
        launch(&run, round_floats<bf16>, parts_of(count, THREADS), 1, THREADS, count, staged, (bf16 *)elements);
    else
        launch(&run, round_floats<f16>, parts_of(count, THREADS), 1, THREADS, count, staged, (f16 *)elements);
    return run.status;
}

/* Uploads the weight in pieces through `staged`, and rounds it. The stream keeps the copies and kernels in order, so
 * each piece can use the same memory. */
static cudaError_t round_weight(const struct plan_weight *weight, enum dtype dtype, float *staged, void *elements,
                                cudaStream_t stream)
{
    int64_t all = weight->rows * weight->columns;
    cudaError_t status = cudaSuccess;
    for (int64_t first = 0; first < all && status == cudaSuccess; first += STAGED) {
        int64_t count = least(STAGED, all - first);
        status = cudaMemcpyAsync(staged, weight->data + first, (size_t)count * sizeof(float), cudaMemcpyHostToDevice,
                                 stream);
        if (status == cudaSuccess)
            status = launch_rounding(dtype, count, staged, (uint16_t *)elements + first, stream);
    }
    return status;
}

static int upload_floats(struct device_weights *weights, const struct plan_weight *weight, int index,
                         cudaStream_t stream, struct error *error)
{
    size_t bytes = (size_t)(weight->rows * weight->columns) * sizeof(float);
    if (cuda_take_memory((void **)&weights->floats[index], bytes, "a weight", error) != 0)
        return -1;
    weights->bytes += bytes;
    cudaError_t status = cudaMemcpyAsync(weights->floats[index], weight->data, bytes, cudaMemcpyHostToDevice, stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, "cannot copy weights to the CUDA device", status);
}

static int upload_elements(struct device_weights *weights, const struct plan_weight *weight, int index,
                           enum dtype dtype, float *staged, cudaStream_t stream, struct error *error)
{
    size_t bytes = (size_t)(weight->rows * weight->columns) * sizeof(uint16_t);
    if (dtype == DTYPE_F16 && check_range(weight, error) != 0)
        return -1;
    if (cuda_take_memory(&weights->elements[index], bytes, "a weight", error) != 0)
        return -1;
    weights->bytes += bytes;
    cudaError_t status = round_weight(weight, dtype, staged, weights->elements[index], stream);
    return status == cudaSuccess ? 0 : cuda_fail(error, "cannot copy weights to the CUDA device", status);
}

static int upload_weight(struct device_weights *weights, const struct plan *plan, int index, enum dtype dtype,
                         float *staged, cudaStream_t stream, struct error *error)
{
    const struct plan_weight *weight = &plan->weights[index];
    bool halves = dtype == DTYPE_BF16 || dtype == DTYPE_F16;
    int readings = readings_of(plan, index);
    /* The weight is empty, or a pass of the plan has replaced it by another weight. */
    if (!weight->data || weight->rows * weight->columns == 0)
        return 0;
    if ((!halves || readings & AS_FLOATS) && upload_floats(weights, weight, index, stream, error) != 0)
        return -1;
    if (!halves)
        weights->elements[index] = weights->floats[index];
    else if (readings & AS_ELEMENTS)
        return upload_elements(weights, weight, index, dtype, staged, stream, error);
    return 0;
}

int weights_to_device(struct device_weights *weights, const struct plan *plan, enum dtype dtype, cudaStream_t stream,
                      struct error *error)
{
    float *staged = NULL;
    int result = 0;
    weights->count = plan->n_weights;
    weights->elements = (void **)calloc((size_t)plan->n_weights + 1, sizeof *weights->elements);
    weights->floats = (float **)calloc((size_t)plan->n_weights + 1, sizeof *weights->floats);
    if (!weights->elements || !weights->floats)
        return error_set(error, "the host is out of memory while preparing a model");
    if (dtype == DTYPE_BF16 || dtype == DTYPE_F16)
        result = cuda_take_memory((void **)&staged, (size_t)STAGED * sizeof *staged, "rounding weights", error);
    for (int i = 0; i < plan->n_weights && result == 0; i++)
        result = upload_weight(weights, plan, i, dtype, staged, stream, error);
    cudaError_t status = cudaStreamSynchronize(stream);
    cudaFree(staged);
    if (result == 0 && status != cudaSuccess)
        return cuda_fail(error, "cannot copy weights to the CUDA device", status);
    return result;
}

void weights_free_device(struct device_weights *weights)
{
    for (int i = 0; i < weights->count && weights->elements && weights->floats; i++) {
        if (weights->elements[i] != weights->floats[i])
            cudaFree(weights->elements[i]);
        cudaFree(weights->floats[i]);
    }
    free(weights->elements);
    free(weights->floats);
}
