#include "engine/cuda/choice.h"
#include "engine/cuda/give.h"
#include "engine/cuda/products.h"

#define POOL_THREADS 64
#define POOL_ROWS 128   /* of a partial sum: one chain over thousands of rows would lose digits */
#define OUTPUT_ROWS 256 /* that are there at a time */
#define WARPS 4

/* Block x: a pixel of y (columns, rows). */
static __global__ void turn(int64_t rows, int64_t columns, const float *x, float *y)
{
    int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        y[c * rows + row] = x[row * columns + c];
}

int64_t cuda_give_image_scratch(const struct plan *plan, const struct plan_step *step)
{
    return plan->max_rows * plan->values[step->x].columns;
}

void cuda_give_image(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        const int64_t *starts = starts_of(run, step->x) + b;
        int64_t rows = starts[1] - starts[0];
        if (!run->batch->items[b].output)
            continue;
        launch(run, turn, rows, 1, threads_for(columns), rows, columns, floats_of(run, step->x) + starts[0] * columns,
               run->scratch + starts[0] * columns);
        cuda_copy_out(run, run->batch->items[b].output, run->scratch + starts[0] * columns,
                      rows * columns * (int64_t)sizeof(float));
    }
}

void cuda_give_hidden(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    int input = run->plan->axes[run->plan->hidden_axis].input;
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        const struct engine_item *item = &run->batch->items[b];
        if (item->hidden)
            cuda_copy_out(run, item->hidden, floats_of(run, step->x) + starts_of(run, step->x)[b] * columns,
                          padder_length(run->plan, item, input) * columns * (int64_t)sizeof(float));
    }
}

/* Block x: columns; y: the item. A NaN stays one, as in torch.max. */
static __global__ void pool(int64_t columns, const float *x, const int64_t *starts, const struct device_item *items,
                            float *pooled)
{
    int64_t c = thread_of_grid(), item = blockIdx.y, rows = items[item].own_rows;
    enum pooling pooling = items[item].pooling;
    if (c >= columns)
        return;
    float result = x[(pooling == POOLING_LAST ? items[item].last : items[item].first) * columns + c];
    x += starts[item] * columns + c;
    if (pooling == POOLING_MAX)
        for (int64_t r = 1; r < rows; r++)
            if (x[r * columns] > result || isnan(x[r * columns]))
                result = x[r * columns];
    if (pooling == POOLING_MEAN) {
        float sum = 0;
        for (int64_t first = 0; first < rows; first += POOL_ROWS) {
            float part = 0;
            for (int64_t r = first; r < rows && r < first + POOL_ROWS; r++)
                part += x[r * columns];
            sum += part;
        }
        result = sum / (float)rows;
    }
    pooled[item * columns + c] = result;
}

int64_t cuda_give_pooled_scratch(const struct plan *plan, const struct plan_step *step)
{
    return plan->max_items * plan->values[step->x].columns;
}

void cuda_give_pooled(struct cuda_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    bool wanted = false;
    for (int64_t b = 0; b < run->batch->n_items; b++)
        wanted |= run->batch->items[b].pooled != NULL;
    if (!wanted)
        return;
    launch(run, pool, parts_of(columns, POOL_THREADS), dim3((unsigned)run->batch->n_items), POOL_THREADS, columns,
           floats_of(run, step->x), device_starts_of(run, step->x), run->items, run->scratch);
    for (int64_t b = 0; b < run->batch->n_items; b++)
        if (run->batch->items[b].pooled)
            cuda_copy_out(run, run->batch->items[b].pooled, run->scratch + b * columns,
                          columns * (int64_t)sizeof(float));
}

/* ---- The class's output, for the wanted rows alone ---- */

/* Scratch: OUTPUT_ROWS rows of x, of the output, and of the best values and their columns. */
struct output_scratch {
    float *rows, *output, *top_values;
    int32_t *top_columns;
};

static int64_t output_columns(const struct plan *plan, const struct plan_step *step)
{
    return step->weight == PLAN_NONE ? plan->values[step->x].columns : plan->weights[step->weight].rows;
}

int64_t cuda_give_output_scratch(const struct plan *plan, const struct plan_step *step)
{
    return OUTPUT_ROWS * (plan->values[step->x].columns + 3 * output_columns(plan, step));
}

static __global__ void gather(const struct wanted_row *wanted, int64_t columns, const float *x, float *rows)
{
    int64_t row = blockIdx.x;
    for (int64_t c = threadIdx.x; c < columns; c += blockDim.x)
        rows[row * columns + c] = x[wanted[row].row * columns + c];
}

/* In place; a warp a row. Any NaN makes all of it NaN. */
static __global__ void softmax(int64_t rows, int64_t columns, float *x)
{
    int64_t row = warp_of_grid();
    float maximum = -INFINITY, sum = 0;
    if (row >= rows)
        return;
    x += row * columns;
    for (int64_t c = lane(); c < columns; c += WARP)
        maximum = fmaxf(maximum, x[c]);
    maximum = warp_maximum(maximum);
    for (int64_t c = lane(); c < columns; c += WARP)
        sum += x[c] = expf(x[c] - maximum);
    sum = warp_sum(sum);
    for (int64_t c = lane(); c < columns; c += WARP)
        x[c] /= sum;
}

/* A warp a row. As many passes over it as there are to be found. */
static __global__ void choose(int64_t rows, int64_t columns, const float *x, int64_t count, float *top_values,
                              int32_t *top_columns)
{
    int64_t row = warp_of_grid();
    unsigned long long rank = BEST_OF_ALL;
    if (row >= rows)
        return;
    x += row * columns;
    for (int64_t i = 0; i < count; i++) {
        rank = next_best([=](int64_t c) { return x[c]; }, columns, rank);
        if (lane() == 0) {
            top_values[row * count + i] = x[column_of(rank)];
            top_columns[row * count + i] = (int32_t)column_of(rank);
        }
    }
}

/* Rows [first, first + count) of `output`, all of one item. */
static void deliver(struct cuda_run *run, const struct output_scratch *scratch, const struct wanted_row *wanted,
                    int64_t first, int64_t count, int64_t columns)
{
    const struct engine_item *item = &run->batch->items[wanted[first].item];
    float *output = scratch->output + first * columns;
    int64_t index = wanted[first].index, k = item->top_k;
    if (item->softmax)
        launch(run, softmax, parts_of(count, WARPS), 1, WARPS * WARP, count, columns, output);
    if (k > 0) {
        float *values = scratch->top_values + first * columns;
        int32_t *places = scratch->top_columns + first * columns;
        launch(run, choose, parts_of(count, WARPS), 1, WARPS * WARP, count, columns, output, k, values, places);
        cuda_copy_out(run, item->top_values + index * k, values, count * k * (int64_t)sizeof *values);
        cuda_copy_out(run, item->top_columns + index * k, places, count * k * (int64_t)sizeof *places);
    } else {
        cuda_copy_out(run, item->output + index * columns, output, count * columns * (int64_t)sizeof *output);
    }
}

void cuda_give_output(struct cuda_run *run, const struct plan_step *step)
{
    int64_t depth = columns_of(run, step->x), columns = output_columns(run->plan, step);
    struct output_scratch scratch = {};
    scratch.rows = run->scratch;
    scratch.output = step->weight == PLAN_NONE ? scratch.rows : scratch.rows + OUTPUT_ROWS * depth;
    scratch.top_values = scratch.output + OUTPUT_ROWS * columns;
    scratch.top_columns = (int32_t *)(scratch.top_values + OUTPUT_ROWS * columns);
    for (int64_t first = 0; first < run->batch->n_wanted; first += OUTPUT_ROWS) {
        const struct wanted_row *wanted = run->batch->wanted + first;
        int64_t rows = least(OUTPUT_ROWS, run->batch->n_wanted - first);
        launch(run, gather, rows, 1, threads_for(depth), run->wanted + first, depth, floats_of(run, step->x),
               scratch.rows);
        if (step->weight != PLAN_NONE) {
            struct linear linear = {};
            linear.rows = rows;
            linear.x = scratch.rows;
            linear.x_stride = depth;
            linear.weight = step->weight;
            linear.bias = step->bias;
            linear.activation = ACTIVATION_NONE;
            linear.out = scratch.output;
            cuda_linear_rows(run, &linear);
        }
        for (int64_t r = 0, behind; r < rows; r = behind) {
            for (behind = r + 1; behind < rows && wanted[behind].item == wanted[r].item;)
                behind++;
            deliver(run, &scratch, wanted, r, behind - r, columns);
        }
    }
}
