#include "engine/cuda/give.h"
#include "engine/cuda/linear.h"
#include "engine/cuda/results.h"
#include "engine/cuda/top_k.h"

#define POOL_WARPS 16 /* number of warps that share an item's rows */
/* Number of rows of a partial sum. One chain of additions over thousands of rows would lose digits. */
#define POOL_ROWS 128
/* Number of rows that a thread loads at once. An item has few blocks, which would wait for each row if they loaded rows
 * one by one. */
#define POOL_AT_ONCE 16
#define OUTPUT_ROWS 256 /* number of rows of the output in scratch at a time */

/* Transposes x (rows, columns) to y (columns, rows), channels first. Grid: the index x is a row of the matrix x, which
 * is a pixel. */
template <typename T> static __global__ void turn(int64_t rows, int64_t columns, const T *x, float *y)
{
    int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[c * rows + row] = to_float(x[row * columns + c]);
}

int64_t cuda_give_image_scratch(const struct plan *plan, const struct plan_step *step)
{
    return plan->max_rows * plan->values[step->x].columns;
}

/* In the memory for results, an image takes the place of requested rows. Each pixel takes the place of one row. */
template <typename T> void cuda_give_image(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x), given = 0;
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        const int64_t *starts = starts_of(run, step->x) + b;
        int64_t rows = starts[1] - starts[0];
        float *output = run->batch->items[b].output;
        if (!output)
            continue;
        float *image = scratch_of(run);
        if (run->results->fit)
            image = (float *)(run->results->device + run->results->output) + given * columns;
        launch(run, turn<T>, rows, 1, threads_for_columns(columns), rows, columns,
               elements_of<T>(run, step->x) + starts[0] * columns, image);
        if (!run->results->fit)
            results_copy(run, output, image, rows * columns * (int64_t)sizeof(float));
        given += rows;
    }
}

template <typename T, int N>
static __global__ void copy_hidden(int64_t rows, int64_t columns, const T *x, float *hidden)
{
    int64_t row = warp_of_grid();
    for (int64_t c = warp_thread() * N; row < rows && c < columns; c += WARP * N) {
        float values[N];
        load(values, x + row * columns + c);
        store(hidden + row * columns + c, values);
    }
}

static __global__ void copy_ids(int64_t rows, int64_t columns, const int32_t *x, float *copy)
{
    int64_t row = warp_of_grid();
    for (int64_t c = warp_thread(); row < rows && c < columns; c += WARP)
        copy[row * columns + c] = (float)x[row * columns + c];
}

/* Writes rows [first, first + rows) of x to `place` in device memory, as floats. */
template <typename T>
static void leave_rows(struct cuda_run *run, const struct plan_step *step, int64_t first, int64_t rows, float *place)
{
    int64_t columns = columns_of(run, step->x);
    if (run->plan->values[step->x].ids) {
        launch_rows(run, copy_ids, rows, columns, ids_of(run, step->x) + first * columns, place);
        return;
    }
    with_pack<T>(columns, [&](auto n) {
        launch_rows(run, copy_hidden<T, n.value>, rows, columns, elements_of<T>(run, step->x) + first * columns, place);
    });
}

/* Copies rows [first, first + rows) of x to `to` in several parts, because not all rows fit in the memory for
 * results. */
template <typename T>
static void give_rows(struct cuda_run *run, const struct plan_step *step, int64_t first, int64_t rows, float *to)
{
    int64_t columns = columns_of(run, step->x), at_once = (int64_t)(run->results->bytes / sizeof(float)) / columns;
    float *place = (float *)run->results->device;
    for (int64_t done = 0; done < rows; done += at_once) {
        int64_t count = least(at_once, rows - done);
        leave_rows<T>(run, step, first + done, count, place);
        results_copy(run, to + done * columns, place, count * columns * (int64_t)sizeof(float));
    }
}

template <typename T> void cuda_give_hidden(struct cuda_run *run, const struct plan_step *step)
{
    if (!run->shape->hidden)
        return;
    if (run->results->fit) {
        leave_rows<T>(run, step, 0, rows_of(run, step->x), (float *)(run->results->device + run->results->hidden));
        return;
    }
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        const struct engine_item *item = &run->batch->items[b];
        if (item->hidden)
            give_rows<T>(run, step, starts_of(run, step->x)[b],
                         padder_own_rows(run->plan, item, run->plan->hidden_axis), item->hidden);
    }
}

template <typename T> void cuda_give_tensor(struct cuda_run *run, const struct plan_step *step)
{
    int output = step->give_tensor.output;
    if (!shape_wants_tensor(run->shape, output))
        return;
    if (run->results->fit) {
        leave_rows<T>(run, step, 0, rows_of(run, step->x),
                      (float *)(run->results->device + run->results->tensors[output]));
        return;
    }
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        const int64_t *starts = starts_of(run, step->x) + b;
        float *tensor = padder_tensor(&run->batch->items[b], output);
        if (tensor)
            give_rows<T>(run, step, starts[0], starts[1] - starts[0], tensor);
    }
}

/* Calls take(element) for the elements of a column in rows `first`, first + POOL_WARPS, first + 2 POOL_WARPS, …, in
 * this order. */
template <typename T, typename Take>
static __device__ __forceinline__ void each_row(int64_t columns, const T *x, int64_t first, int64_t behind, Take take)
{
    for (; first < behind; first += POOL_AT_ONCE * POOL_WARPS) {
        T elements[POOL_AT_ONCE];
#pragma unroll
        for (int i = 0; i < POOL_AT_ONCE; i++)
            elements[i] = first + i * POOL_WARPS < behind ? x[(first + i * POOL_WARPS) * columns] : of_float<T>(0.0f);
#pragma unroll
        for (int i = 0; i < POOL_AT_ONCE; i++)
            if (first + i * POOL_WARPS < behind)
                take(to_float(elements[i]));
    }
}

/* The warp's share of the sum over a column. The warp reads every POOL_WARPS-th row, and adds up partial sums of
 * POOL_ROWS rows. */
template <typename T> static __device__ float sum_rows(int64_t columns, const T *x, int64_t rows)
{
    float sum = 0;
    for (int64_t first = threadIdx.x / WARP; first < rows; first += POOL_WARPS * POOL_ROWS) {
        float part = 0;
        int64_t behind = first + POOL_WARPS * POOL_ROWS;
        each_row(columns, x, first, behind < rows ? behind : rows, [&](float element) { part += element; });
        sum += part;
    }
    return sum;
}

/* The larger number. A NaN stays a NaN, as in torch.max. */
static __device__ __forceinline__ float larger_of(float a, float b)
{
    return b > a || isnan(b) ? b : a;
}

template <typename T> static __device__ float maximum_of_rows(int64_t columns, const T *x, int64_t rows)
{
    float maximum = -INFINITY;
    each_row(columns, x, threadIdx.x / WARP, rows, [&](float element) { maximum = larger_of(maximum, element); });
    return maximum;
}

/* Grid: x is the item, y is a group of WARP columns. Each thread of a warp computes one column. */
template <typename T>
static __global__ void __launch_bounds__(POOL_WARPS *WARP)
    pool(int64_t columns, const T *x, const int64_t *starts, const struct device_item *items, float *pooled)
{
    float *shares = (float *)dynamic_shared_memory; /* (POOL_WARPS, WARP) */
    int64_t c = (int64_t)blockIdx.y * WARP + warp_thread(), item = blockIdx.x, rows = items[item].own_rows;
    enum pooling pooling = items[item].pooling;
    const T *first = x + starts[item] * columns + c;
    float share = 0;
    if (c < columns && pooling == POOLING_MEAN)
        share = sum_rows(columns, first, rows);
    if (c < columns && pooling == POOLING_MAX)
        share = maximum_of_rows(columns, first, rows);
    shares[threadIdx.x] = share;
    __syncthreads();
    if (threadIdx.x >= WARP || c >= columns)
        return;
    float result = to_float(x[(pooling == POOLING_LAST ? items[item].last : items[item].first) * columns + c]);
    for (int warp = 0; warp < POOL_WARPS && pooling == POOLING_MAX; warp++)
        result = larger_of(result, shares[warp * WARP + warp_thread()]);
    for (int warp = 1; warp < POOL_WARPS && pooling == POOLING_MEAN; warp++)
        share += shares[warp * WARP + warp_thread()];
    pooled[item * columns + c] = pooling == POOLING_MEAN ? share / (float)rows : result;
}

int64_t cuda_give_pooled_scratch(const struct plan *plan, const struct plan_step *step)
{
    return plan->max_items * plan->values[step->x].columns;
}

template <typename T> void cuda_give_pooled(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    bool fit = run->results->fit;
    float *pooled = fit ? (float *)(run->results->device + run->results->pooled) : scratch_of(run);
    if (!run->shape->pooled)
        return;
    launch_shared(run, pool<T>, items_of(run), dim3((unsigned)parts_of(columns, WARP)), POOL_WARPS * WARP,
                  POOL_WARPS * WARP * sizeof(float), columns, elements_of<T>(run, step->x),
                  device_item_starts_of(run, step->x), run->items, pooled);
    for (int64_t b = 0; !fit && b < run->batch->n_items; b++)
        if (run->batch->items[b].pooled)
            results_copy(run, run->batch->items[b].pooled, pooled + b * columns, columns * (int64_t)sizeof(float));
}

/* ---- The output of the model's class: only the requested rows ---- */

/* Places for OUTPUT_ROWS rows, in scratch or in the memory for results. They are for rows of x, rows of the output, the
 * largest values of these rows with their columns, and log-probabilities. */
struct output_places {
    void *rows;
    float *output, *top_values;
    int32_t *top_columns;
    float *log_probabilities;
};

static int64_t output_columns(const struct plan *plan, const struct plan_step *step)
{
    return step->weight == PLAN_NONE ? plan->values[step->x].columns : plan->weights[step->weight].rows;
}

int64_t cuda_give_output_scratch(const struct plan *plan, const struct plan_step *step)
{
    return OUTPUT_ROWS * (plan->values[step->x].columns + 3 * output_columns(plan, step) + 1);
}

template <typename T, typename To>
static __global__ void gather(int64_t rows, const struct wanted_row *wanted, int64_t columns, const T *x, To *y)
{
    int64_t row = warp_of_grid();
    for (int64_t c = warp_thread(); row < rows && c < columns; c += WARP)
        y[row * columns + c] = of_float<To>(to_float(x[wanted[row].row * columns + c]));
}

/* output = rows Wᵀ + bias, as floats. */
template <typename T>
static void multiply_output(struct cuda_run *run, const struct plan_step *step, int64_t count,
                            const struct output_places *places)
{
    const struct plan_weight *weight = &run->plan->weights[step->weight];
    struct cuda_product product = {};
    product.rows = count;
    product.columns = weight->rows;
    product.depth = weight->columns;
    product.a = places->rows;
    product.a_stride = weight->columns;
    product.b = weight_of<T>(run, step->weight);
    product.b_stride = weight->columns;
    product.transpose_b = true;
    product.bias = float_weight_of(run, step->bias);
    product.float_out = true;
    product.out = places->output;
    product.out_stride = weight->rows;
    cuda_products_multiply(run, &product);
}

/* Chooses algorithms for products of OUTPUT_ROWS rows, and of the rest of the shape's requested rows. The algorithms
 * suit places in the results and in scratch, because both have the same alignment. */
template <typename T>
static void choose_output(struct cuda_run *run, const struct plan_step *step, const struct output_places *places)
{
    int64_t last = run->shape->n_wanted % OUTPUT_ROWS;
    if (step->weight == PLAN_NONE)
        return;
    if (run->shape->n_wanted >= OUTPUT_ROWS)
        multiply_output<T>(run, step, OUTPUT_ROWS, places);
    if (last > 0)
        multiply_output<T>(run, step, last, places);
}

/* Computes the requested rows [first, first + count) of the output. `count` is at most OUTPUT_ROWS. */
template <typename T>
static void compute_output(struct cuda_run *run, const struct plan_step *step, int64_t first, int64_t count,
                           const struct output_places *places)
{
    int64_t depth = columns_of(run, step->x), columns = output_columns(run->plan, step);
    const struct wanted_row *wanted = run->wanted + first;
    if (step->weight == PLAN_NONE) {
        launch_rows(run, gather<T, float>, count, wanted, depth, elements_of<T>(run, step->x), places->output);
    } else {
        launch_rows(run, gather<T, T>, count, wanted, depth, elements_of<T>(run, step->x), (T *)places->rows);
        multiply_output<T>(run, step, count, places);
    }
    struct output_rows output = {count, columns, wanted, places->output};
    if (run->shape->targets)
        cuda_log_probabilities(run, &output, places->log_probabilities);
    if (run->shape->softmax)
        cuda_softmax_output(run, &output);
    if (run->shape->top_k > 0)
        cuda_top_k(run, &output, run->shape->top_k, places->top_values, places->top_columns);
}

/* Copies the largest values of the row to the item. */
static void deliver_top(struct cuda_run *run, const struct wanted_row *wanted, int64_t row,
                        const struct output_places *places)
{
    const struct engine_item *item = &run->batch->items[wanted->item];
    int64_t k = item->top_k, room = run->shape->top_k;
    results_copy(run, item->top_values + wanted->index * k, places->top_values + row * room,
                 k * (int64_t)sizeof(float));
    results_copy(run, item->top_columns + wanted->index * k, places->top_columns + row * room,
                 k * (int64_t)sizeof(int32_t));
}

/* Copies the requested rows [first, first + count) to their items. Used if the rows do not fit in the memory for
 * results. */
static void deliver(struct cuda_run *run, int64_t first, int64_t count, int64_t columns,
                    const struct output_places *places)
{
    const struct wanted_row *wanted = run->batch->wanted + first;
    for (int64_t r = 0, behind; r < count; r = behind) {
        const struct engine_item *item = &run->batch->items[wanted[r].item];
        int64_t index = wanted[r].index;
        for (behind = r + 1; behind < count && wanted[behind].item == wanted[r].item;)
            behind++;
        if (item->targets)
            results_copy(run, item->log_probabilities + index, places->log_probabilities + r,
                         (behind - r) * (int64_t)sizeof(float));
        if (item->output && item->top_k == 0)
            results_copy(run, item->output + index * columns, places->output + r * columns,
                         (behind - r) * columns * (int64_t)sizeof(float));
        for (int64_t row = r; item->top_k > 0 && row < behind; row++)
            deliver_top(run, &wanted[row], row, places);
    }
}

/* Places for the rows from `first` on. They are in the memory for results. Rows of x are in scratch, and so is the
 * output if no item requests it. */
static struct output_places places_in_results(const struct cuda_run *run, int64_t first, int64_t columns,
                                              struct output_places scratch)
{
    const struct results *results = run->results;
    struct output_places places = scratch;
    if (run->shape->output)
        places.output = (float *)(results->device + results->output) + first * columns;
    places.top_values = (float *)(results->device + results->top_values) + first * run->shape->top_k;
    places.top_columns = (int32_t *)(results->device + results->top_columns) + first * run->shape->top_k;
    places.log_probabilities = (float *)(results->device + results->log_probabilities) + first;
    return places;
}

template <typename T> void cuda_give_output(struct cuda_run *run, const struct plan_step *step)
{
    int64_t depth = columns_of(run, step->x), columns = output_columns(run->plan, step);
    struct output_places scratch = {};
    scratch.rows = scratch_of(run);
    scratch.output = scratch_of(run) + OUTPUT_ROWS * depth;
    scratch.top_values = scratch.output + OUTPUT_ROWS * columns;
    scratch.top_columns = (int32_t *)(scratch.top_values + OUTPUT_ROWS * columns);
    scratch.log_probabilities = scratch.top_values + 2 * OUTPUT_ROWS * columns;
    if (run->choosing) {
        choose_output<T>(run, step, &scratch);
        return;
    }
    for (int64_t first = 0; first < run->shape->n_wanted; first += OUTPUT_ROWS) {
        int64_t count = least(OUTPUT_ROWS, run->shape->n_wanted - first);
        if (run->results->fit) {
            struct output_places places = places_in_results(run, first, columns, scratch);
            compute_output<T>(run, step, first, count, &places);
            continue;
        }
        compute_output<T>(run, step, first, count, &scratch);
        deliver(run, first, least(count, run->batch->n_wanted - first), columns, &scratch);
    }
}

FOR_ELEMENTS(cuda_give_image)
FOR_ELEMENTS(cuda_give_hidden)
FOR_ELEMENTS(cuda_give_pooled)
FOR_ELEMENTS(cuda_give_output)
FOR_ELEMENTS(cuda_give_tensor)
