/* Several blocks share the results of one item. A warp computes one result. For a group norm, a block computes one
 * group. The order of additions depends only on the item. */
#include "engine/cuda/reduce.h"
#include "engine/cuda/space.h"

#define THREADS 256
#define RESULTS_A_BLOCK 32 /* approximate number of results of a block, for an item that has all rows of the batch */
/* Maximum number of blocks of a launch, unless there are more items. If there are more results, each block computes
 * further results. */
#define MAX_BLOCKS 4096

/* The number of blocks for each item. */
static int64_t blocks_of(const struct cuda_run *run, int64_t results)
{
    return most(1, least(parts_of(results, RESULTS_A_BLOCK), MAX_BLOCKS / items_of(run)));
}

/* ---- OP_GROUP_NORM ---- */

template <typename T> struct group_norm {
    const T *x;
    T *y;
    const int64_t *starts, *sizes;
    /* `sequences` is the index of the size that counts the sequences of an item, or PLAN_NONE if an item is one
     * sequence. */
    int n_sizes, sequences;
    int64_t columns, groups;
    const float *gain, *bias;
    float epsilon;
};

/* The sum over the threads of a block. `sums` has room for one float of each warp. */
static __device__ float block_sum(float x, float *sums)
{
    float sum = 0;
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        sums[threadIdx.x / WARP] = x;
    __syncthreads();
    for (unsigned i = 0; i < blockDim.x / WARP; i++)
        sum += sums[i];
    return sum;
}

/* Normalises one group of one sequence. x and y point to the first element of the group. */
template <typename T>
static __device__ void normalise_group(const struct group_norm<T> &norm, int64_t rows, int64_t column, const T *x, T *y,
                                       float *sums)
{
    int64_t size = norm.columns / norm.groups, count = rows * size;
    float sum = 0, squares = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
        sum += to_float(x[i / size * norm.columns + i % size]);
    float mean = block_sum(sum, sums) / (float)count;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        float distance = to_float(x[i / size * norm.columns + i % size]) - mean;
        squares += distance * distance;
    }
    float factor = 1.0f / sqrtf(block_sum(squares, sums) / (float)count + norm.epsilon);
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
        int64_t place = i / size * norm.columns + i % size, c = column + i % size;
        float normal = (to_float(x[place]) - mean) * factor * (norm.gain ? norm.gain[c] : 1);
        y[place] = of_float<T>(normal + (norm.bias ? norm.bias[c] : 0));
    }
}

/* The grid is (blocks, items). */
template <typename T> static __global__ void normalise_groups(int64_t blocks, struct group_norm<T> norm)
{
    int64_t item = blockIdx.y, all = norm.starts[item + 1] - norm.starts[item];
    int64_t sequences = norm.sequences == PLAN_NONE ? 1 : norm.sizes[item * norm.n_sizes + norm.sequences];
    if (all == 0)
        return;
    int64_t rows = all / sequences;
    for (int64_t g = blockIdx.x; g < sequences * norm.groups; g += blocks) {
        int64_t column = g % norm.groups * (norm.columns / norm.groups);
        int64_t first = (norm.starts[item] + g / norm.groups * rows) * norm.columns + column;
        normalise_group(norm, rows, column, norm.x + first, norm.y + first, (float *)dynamic_shared_memory);
    }
}

template <typename T> void cuda_group_norm(struct cuda_run *run, const struct plan_step *step)
{
    const struct plan_axis *axis = &run->plan->axes[run->plan->values[step->x].axis];
    group_norm<T> norm = {};
    norm.x = elements_of<T>(run, step->x);
    norm.y = elements_of<T>(run, step->y);
    norm.starts = device_item_starts_of(run, step->x);
    norm.sizes = run->sizes;
    norm.n_sizes = run->plan->n_sizes;
    norm.sequences = axis->kind == AXIS_SIZED ? axis->sized.sequences : PLAN_NONE;
    norm.columns = columns_of(run, step->x);
    norm.groups = step->group_norm.groups;
    norm.gain = float_weight_of(run, step->weight);
    norm.bias = float_weight_of(run, step->bias);
    norm.epsilon = step->group_norm.epsilon;
    int64_t blocks = most(
        1, least(norm.groups * (norm.sequences == PLAN_NONE ? 1 : rows_of(run, step->x)), MAX_BLOCKS / items_of(run)));
    launch_shared(run, normalise_groups<T>, blocks, dim3((unsigned)items_of(run)), THREADS,
                  THREADS / WARP * sizeof(float), blocks, norm);
}

/* ---- Reductions over a space ---- */

/* The elements of an operand. They are elements of type T, ids, or floats of a weight. */
template <typename T> struct elements {
    const T *values;
    const int32_t *ids;
    const float *floats;
    const int64_t *starts; /* by item: index of its first row. NULL for a weight */
    int64_t columns;
};

template <typename T> static elements<T> elements_at(struct cuda_run *run, int value, int weight)
{
    elements<T> elements = {};
    if (value == PLAN_NONE) {
        elements.floats = float_weight_of(run, weight);
        return elements;
    }
    if (run->plan->values[value].ids)
        elements.ids = ids_of(run, value);
    else
        elements.values = elements_of<T>(run, value);
    elements.starts = device_item_starts_of(run, value);
    elements.columns = columns_of(run, value);
    return elements;
}

template <typename T>
static __device__ __forceinline__ float element_at(const struct elements<T> &elements, int64_t item, int64_t index)
{
    if (elements.floats)
        return elements.floats[index];
    index += elements.starts[item] * elements.columns;
    return elements.ids ? (float)elements.ids[index] : to_float(elements.values[index]);
}

template <typename T> struct over_space {
    struct device_space device;
    int inner; /* number of inner dimensions. A result is computed from all elements of these dimensions */
    struct elements<T> x, z;
    const int64_t *y_starts;
    int64_t y_columns;
    T *y;
    enum plan_reduction reduction;
    float parameter; /* the parameter of a reduction, or the scale of OP_MULTIPLY */
    bool logarithm;
    bool multiplies; /* OP_MULTIPLY: the inner dimension is k. The two dimensions before it are m and n */
};

template <typename T> static over_space<T> space_of_step(struct cuda_run *run, const struct plan_step *step)
{
    over_space<T> over = {};
    over.device = device_space_of(run, step);
    over.x = elements_at<T>(run, step->x, PLAN_NONE);
    over.y_starts = device_item_starts_of(run, step->y);
    over.y_columns = columns_of(run, step->y);
    over.y = elements_of<T>(run, step->y);
    return over;
}

/* One result, which a warp computes. */
template <typename T> struct result {
    const struct over_space<T> *over;
    const struct space_dimension *inner;
    int64_t item, count;
    struct space_offsets first;
    T *y; /* the item's first element of y */
};

template <typename T> static __device__ __forceinline__ float result_element(const struct result<T> &r, int64_t index)
{
    struct space_place place = space_at(r.inner, r.over->inner, r.first, index);
    return element_at(r.over->x, r.item, place.at.x);
}

/* Calls compute(result) for each result of the item, in all threads of one warp. The grid is (blocks, items). */
template <typename T, typename Compute>
static __device__ __forceinline__ void each_result(int64_t blocks, const struct over_space<T> &over, Compute compute)
{
    struct evaluated_space *space = (struct evaluated_space *)dynamic_shared_memory;
    int64_t item = blockIdx.y;
    if (over.y_starts[item] == over.y_starts[item + 1])
        return;
    if (threadIdx.x == 0) {
        *space = space_of_item(over.device, item);
        if (over.multiplies) /* x does not depend on n, and z does not depend on m, so these strides are 0 */
            space->dimensions[space->rank - 2].stride.x = space->dimensions[space->rank - 3].stride.z = 0;
    }
    __syncthreads();
    int outer = space->rank - over.inner;
    result<T> result = {};
    result.over = &over;
    result.inner = space->dimensions + outer;
    result.item = item;
    result.count = space_count(result.inner, over.inner);
    result.y = over.y + over.y_starts[item] * over.y_columns;
    int64_t results = space_count(space->dimensions, outer), warps = blocks * (blockDim.x / WARP);
    for (int64_t i = warp_of_grid(); i < results; i += warps) {
        result.first = space_at(space->dimensions, outer, space->first, i).at;
        compute(result);
    }
}

template <typename T>
static void launch_results(struct cuda_run *run, const struct plan_step *step, const struct over_space<T> &over,
                           void (*kernel)(int64_t, struct over_space<T>))
{
    int64_t blocks = blocks_of(run, rows_of(run, step->y) * columns_of(run, step->y));
    launch_shared(run, kernel, blocks, dim3((unsigned)items_of(run)), THREADS, sizeof(struct evaluated_space), blocks,
                  over);
}

/* ---- OP_REDUCE ---- */

static __device__ __forceinline__ float maximum_of(float a, float b)
{
    return b > a || b != b ? b : a;
}

static __device__ __forceinline__ float minimum_of(float a, float b)
{
    return b < a || b != b ? b : a;
}

static __device__ __forceinline__ float join(enum plan_reduction reduction, float a, float b)
{
    if (reduction == REDUCTION_MAXIMUM)
        return maximum_of(a, b);
    if (reduction == REDUCTION_MINIMUM)
        return minimum_of(a, b);
    return reduction == REDUCTION_PRODUCT ? a * b : a + b;
}

/* Combines f(element) of all elements by sum, product, maximum or minimum. Every thread of the warp receives the
 * result. */
template <typename T, typename Function>
static __device__ __forceinline__ float join_all(const struct result<T> &r, enum plan_reduction reduction, Function f)
{
    float start = reduction == REDUCTION_MAXIMUM   ? -INFINITY
                  : reduction == REDUCTION_MINIMUM ? INFINITY
                  : reduction == REDUCTION_PRODUCT ? 1.0f
                                                   : 0.0f;
    float joined = start;
    for (int64_t i = warp_thread(); i < r.count; i += WARP)
        joined = join(reduction, joined, f(result_element(r, i)));
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        joined = join(reduction, joined, __shfl_xor_sync(WHOLE_WARP, joined, apart));
    return joined;
}

template <typename T> static __device__ __forceinline__ float norm_of(const struct result<T> &r)
{
    if (r.over->parameter == 1)
        return join_all(r, REDUCTION_SUM, [](float x) { return fabsf(x); });
    if (r.over->parameter == 2)
        return sqrtf(join_all(r, REDUCTION_SUM, [](float x) { return x * x; }));
    return r.count == 0 ? 0 : join_all(r, REDUCTION_MAXIMUM, [](float x) { return fabsf(x); });
}

template <typename T> static __device__ __forceinline__ float variance_of(const struct result<T> &r)
{
    float mean = join_all(r, REDUCTION_SUM, [](float x) { return x; }) / (float)r.count;
    float squares = join_all(r, REDUCTION_SUM, [=](float x) { return (x - mean) * (x - mean); });
    return squares / fmaxf((float)r.count - r.over->parameter, 0);
}

/* The index of the first largest element, or of the first NaN. */
template <typename T> static __device__ __forceinline__ float argmax_of(const struct result<T> &r)
{
    float largest = join_all(r, REDUCTION_MAXIMUM, [](float x) { return x; }), place = INFINITY;
    for (int64_t i = warp_thread(); i < r.count; i += WARP) {
        float x = result_element(r, i);
        if (x == largest || (x != x && largest != largest))
            place = fminf(place, (float)i);
    }
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        place = fminf(place, __shfl_xor_sync(WHOLE_WARP, place, apart));
    return place;
}

template <typename T> static __device__ __forceinline__ float reduced(const struct result<T> &r)
{
    enum plan_reduction reduction = r.over->reduction;
    switch (reduction) {
    case REDUCTION_SUM:
    case REDUCTION_MAXIMUM:
    case REDUCTION_MINIMUM:
    case REDUCTION_PRODUCT:
        return join_all(r, reduction, [](float x) { return x; });
    case REDUCTION_MEAN:
        return join_all(r, REDUCTION_SUM, [](float x) { return x; }) / (float)r.count;
    case REDUCTION_NORM:
        return norm_of(r);
    case REDUCTION_VARIANCE:
        return variance_of(r);
    case REDUCTION_DEVIATION:
        return sqrtf(variance_of(r));
    case REDUCTION_ARGMAX:
        return argmax_of(r);
    case REDUCTION_CUMULATE:
    case REDUCTION_COUNT:
        break;
    }
    return NAN;
}

template <typename T> static __global__ void reduce_results(int64_t blocks, struct over_space<T> over)
{
    each_result(blocks, over, [](const struct result<T> &r) {
        float y = reduced(r);
        if (warp_thread() == 0)
            r.y[r.first.y] = of_float<T>(y);
    });
}

/* Computes running sums. One thread adds the elements one after another. */
template <typename T> static __global__ void cumulate_results(int64_t blocks, struct over_space<T> over)
{
    each_result(blocks, over, [](const struct result<T> &r) {
        float sum = 0;
        for (int64_t i = 0; i < r.count && warp_thread() == 0; i++) {
            sum += result_element(r, i);
            r.y[space_at(r.inner, r.over->inner, r.first, i).at.y] = of_float<T>(sum);
        }
    });
}

template <typename T> void cuda_reduce(struct cuda_run *run, const struct plan_step *step)
{
    struct over_space<T> over = space_of_step<T>(run, step);
    over.inner = step->reduce.reduced;
    over.reduction = step->reduce.reduction;
    over.parameter = step->reduce.parameter;
    launch_results(run, step, over, over.reduction == REDUCTION_CUMULATE ? cumulate_results<T> : reduce_results<T>);
}

/* ---- OP_SOFTMAX ---- */

template <typename T> static __global__ void softmax_results(int64_t blocks, struct over_space<T> over)
{
    each_result(blocks, over, [](const struct result<T> &r) {
        float maximum = join_all(r, REDUCTION_MAXIMUM, [](float x) { return x; });
        float sum = join_all(r, REDUCTION_SUM, [=](float x) { return expf(x - maximum); });
        float logarithm = logf(sum);
        for (int64_t i = warp_thread(); i < r.count; i += WARP) {
            float x = result_element(r, i) - maximum;
            r.y[space_at(r.inner, r.over->inner, r.first, i).at.y] =
                of_float<T>(r.over->logarithm ? x - logarithm : expf(x) / sum);
        }
    });
}

template <typename T> void cuda_softmax(struct cuda_run *run, const struct plan_step *step)
{
    struct over_space<T> over = space_of_step<T>(run, step);
    over.inner = 1;
    over.logarithm = step->softmax.logarithm;
    launch_results(run, step, over, softmax_results<T>);
}

/* ---- OP_MULTIPLY: a warp adds up one element of y along k ---- */

template <typename T> static __global__ void multiply_results(int64_t blocks, struct over_space<T> over)
{
    each_result(blocks, over, [](const struct result<T> &r) {
        const struct space_offsets *k = &r.inner[0].stride;
        float sum = 0;
        for (int64_t i = warp_thread(); i < r.count; i += WARP)
            sum += element_at(r.over->x, r.item, r.first.x + i * k->x) *
                   element_at(r.over->z, r.item, r.first.z + i * k->z);
        sum = warp_sum(sum);
        if (warp_thread() == 0)
            r.y[r.first.y] = of_float<T>(r.over->parameter * sum);
    });
}

template <typename T> void cuda_multiply(struct cuda_run *run, const struct plan_step *step)
{
    struct over_space<T> over = space_of_step<T>(run, step);
    over.z = elements_at<T>(run, step->z, step->z_weight);
    over.inner = 1;
    over.multiplies = true;
    over.parameter = step->multiply.scale;
    launch_results(run, step, over, multiply_results<T>);
}

FOR_ELEMENTS(cuda_group_norm)
FOR_ELEMENTS(cuda_reduce)
FOR_ELEMENTS(cuda_softmax)
FOR_ELEMENTS(cuda_multiply)
