#include "engine/cpu/give.h"
#include "engine/cpu/linear.h"
#include "engine/cpu/top_k.h"

#include <math.h>
#include <string.h>

#define ROWS_A_BLOCK 128   /* number of rows that mean pooling sums up at a time */
#define CHANNELS_A_TASK 16 /* number of channels of an image in a task: 64 bytes of each pixel */

/* The number of the item's rows of the last hidden state, without padding. */
static int64_t own_rows(const struct cpu_run *run, int64_t item)
{
    return padder_own_rows(run->plan, &run->batch->items[item], run->plan->hidden_axis);
}

void cpu_give_hidden(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    const float *x = floats_of(run, step->x);
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < run->batch->n_items; b++)
        if (run->batch->items[b].hidden)
            memcpy(run->batch->items[b].hidden, x + layout->item_starts[b] * columns,
                   (size_t)(own_rows(run, b) * columns) * sizeof *x);
}

/* pooled (columns) = mean of x (rows, columns). Each block of rows is summed up first, and the sums of the blocks
 * afterwards. One chain of additions over thousands of rows would lose digits. `block` has room for one row. */
static void pool_mean(int64_t rows, int64_t columns, const float *x, float *block, float *pooled)
{
    memset(pooled, 0, (size_t)columns * sizeof *pooled);
    for (int64_t first = 0; first < rows; first += ROWS_A_BLOCK) {
        memset(block, 0, (size_t)columns * sizeof *block);
        for (int64_t r = first; r < rows && r < first + ROWS_A_BLOCK; r++)
            for (int64_t i = 0; i < columns; i++)
                block[i] += x[r * columns + i];
        for (int64_t i = 0; i < columns; i++)
            pooled[i] += block[i];
    }
    for (int64_t i = 0; i < columns; i++)
        pooled[i] /= (float)rows;
}

/* pooled (columns) = maximum of x (rows, columns). If a column contains a NaN, its maximum is NaN, as in torch.max. */
static void pool_max(int64_t rows, int64_t columns, const float *x, float *pooled)
{
    memcpy(pooled, x, (size_t)columns * sizeof *pooled);
    for (int64_t r = 1; r < rows; r++)
        for (int64_t i = 0; i < columns; i++)
            if (x[r * columns + i] > pooled[i] || isnan(x[r * columns + i]))
                pooled[i] = x[r * columns + i];
}

void cpu_give_pooled(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        const struct engine_item *item = &run->batch->items[b];
        const float *x = floats_of(run, step->x) + layout->item_starts[b] * columns;
        int64_t rows = own_rows(run, b);
        if (!item->pooled)
            continue;
        if (item->pooling == POOLING_MEAN)
            pool_mean(rows, columns, x, shared_scratch_of(run), item->pooled);
        else if (item->pooling == POOLING_MAX)
            pool_max(rows, columns, x, item->pooled);
        else
            memcpy(item->pooled,
                   floats_of(run, step->x) +
                       padder_item_row(layout, b, item->pooling == POOLING_LAST ? rows - 1 : 0) * columns,
                   (size_t)columns * sizeof *x);
    }
}

int64_t cpu_give_pooled_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return run->plan->values[step->x].columns; /* room for the sums of a block */
}

/* ---- The output of the model's class: only the requested rows, PLAN_ROW_BLOCK at a time ---- */

int64_t cpu_give_output_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    if (step->weight == PLAN_NONE)
        return PLAN_ROW_BLOCK * plan->values[step->x].columns;
    return PLAN_ROW_BLOCK * (plan->weights[step->weight].columns + plan->weights[step->weight].rows);
}

/* The natural logarithm of the probability of the row's target. 0 if the row has no target. */
static float log_probability(const struct cpu_run *run, const struct wanted_row *wanted, int64_t columns,
                             const float *row)
{
    if (wanted->target < 0)
        return 0;
    return (float)((double)row[wanted->target] - run->vector->log_sum(columns, row));
}

/* Writes a row (columns) of the output to its item, in the form that the item requests. Computes the softmax in place.
 */
static void deliver(const struct cpu_run *run, const struct wanted_row *wanted, int64_t columns, float *row)
{
    const struct engine_item *item = &run->batch->items[wanted->item];
    if (item->targets)
        item->log_probabilities[wanted->index] = log_probability(run, wanted, columns, row);
    if (item->softmax)
        run->vector->softmax(columns, 1.0f, row);
    if (item->top_k > 0)
        top_k(columns, row, item->top_k, item->top_columns + wanted->index * item->top_k,
              item->top_values + wanted->index * item->top_k);
    else if (item->output)
        memcpy(item->output + wanted->index * columns, row, (size_t)columns * sizeof *row);
    if (item->finish)
        item->finish(item->finish_context, wanted->index);
}

/* out (count, columns) = rows (count, depth) Wᵀ + b. The threads share the panels of W. */
static void output_layer(const struct cpu_run *run, const struct plan_step *step, int64_t count, const float *rows,
                         float *out)
{
    const struct linear_block block = {
        .weight = step->weight,
        .bias = step->bias,
        .rows = count,
        .x = rows,
        .y = out,
    };
    int64_t panels = cpu_linear_panels(run, step->weight);
#pragma omp parallel for num_threads(run->threads) if (panels > 1) schedule(dynamic)
    for (int64_t p = 0; p < panels; p++)
        cpu_linear_block(run, &block, p, p + 1, scratch_of(run));
}

/* Whether all items request plain rows, without softmax, top_k, targets, or a call of `finish`. */
static bool wants_plain_rows(const struct batch *batch)
{
    for (int64_t b = 0; b < batch->n_items; b++)
        if (batch->items[b].softmax || batch->items[b].top_k > 0 || batch->items[b].targets || batch->items[b].finish)
            return false;
    return true;
}

/* Copies rows of x (rows, columns) to the items, if there is no output layer. One loop copies all rows. A loop for each
 * block would wake the threads 16 384 times for a million rows. */
static void copy_rows(const struct cpu_run *run, const float *x, int64_t columns)
{
    const struct batch *batch = run->batch;
    size_t bytes = (size_t)columns * sizeof *x;
#pragma omp parallel for num_threads(run->threads) if (batch->n_wanted > PLAN_ROW_BLOCK)
    for (int64_t i = 0; i < batch->n_wanted; i++) {
        const struct wanted_row *wanted = &batch->wanted[i];
        memcpy(batch->items[wanted->item].output + wanted->index * columns, x + wanted->row * columns, bytes);
    }
}

void cpu_give_output(const struct cpu_run *run, const struct plan_step *step)
{
    const float *x = floats_of(run, step->x);
    int64_t depth = columns_of(run, step->x);
    int64_t columns = step->weight == PLAN_NONE ? depth : run->plan->weights[step->weight].rows;
    float *rows = shared_scratch_of(run), *out = step->weight == PLAN_NONE ? rows : rows + PLAN_ROW_BLOCK * depth;
    if (step->weight == PLAN_NONE && wants_plain_rows(run->batch)) {
        copy_rows(run, x, columns);
        return;
    }
    for (int64_t first = 0; first < run->batch->n_wanted; first += PLAN_ROW_BLOCK) {
        const struct wanted_row *wanted = run->batch->wanted + first;
        int64_t count = least(PLAN_ROW_BLOCK, run->batch->n_wanted - first);
        for (int64_t i = 0; i < count; i++)
            memcpy(rows + i * depth, x + wanted[i].row * depth, (size_t)depth * sizeof *x);
        if (step->weight != PLAN_NONE)
            output_layer(run, step, count, rows, out);
#pragma omp parallel for num_threads(run->threads) if (count > 1)
        for (int64_t i = 0; i < count; i++)
            deliver(run, &wanted[i], columns, out + i * columns);
    }
}

/* ---- An image, channels first: (columns, pixels) ---- */

/* Transposes x (pixels, columns) to out (columns, pixels), for channels [channel, channel + CHANNELS_A_TASK). */
static void turn_channels(const float *x, int64_t pixels, int64_t columns, int64_t channel, float *out)
{
    int64_t end = least(channel + CHANNELS_A_TASK, columns);
    for (int64_t p = 0; p < pixels; p++)
        for (int64_t c = channel; c < end; c++)
            out[c * pixels + p] = x[p * columns + c];
}

void cpu_give_image(const struct cpu_run *run, const struct plan_step *step)
{
    const struct layout *layout = layout_of(run, step->x);
    int64_t columns = columns_of(run, step->x);
    int64_t parts = parts_of(columns, CHANNELS_A_TASK), tasks = run->batch->n_items * parts;
#pragma omp parallel for num_threads(run->threads) if (tasks > 1) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t item = t / parts, first = layout->item_starts[item];
        if (run->batch->items[item].output)
            turn_channels(floats_of(run, step->x) + first * columns, layout->item_starts[item + 1] - first, columns,
                          t % parts * CHANNELS_A_TASK, run->batch->items[item].output);
    }
}

/* ---- A module's tensor ---- */

#define TENSOR_BLOCK 65536 /* number of elements of a task */

static void give_elements(const struct cpu_run *run, int value, int64_t first, int64_t count, float *out)
{
    if (!run->plan->values[value].ids) {
        memcpy(out, floats_of(run, value) + first, (size_t)count * sizeof *out);
        return;
    }
    const int32_t *ids = ids_of(run, value) + first;
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)ids[i];
}

void cpu_give_tensor(const struct cpu_run *run, const struct plan_step *step)
{
    int64_t columns = columns_of(run, step->x);
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        float *out = padder_tensor(&run->batch->items[b], step->give_tensor.output);
        const int64_t *starts = layout_of(run, step->x)->item_starts + b;
        int64_t first = starts[0] * columns, elements = starts[1] * columns - first;
        int64_t tasks = out ? parts_of(elements, TENSOR_BLOCK) : 0;
#pragma omp parallel for num_threads(threads_for(run, tasks)) if (tasks > 1)
        for (int64_t t = 0; t < tasks; t++)
            give_elements(run, step->x, first + t * TENSOR_BLOCK, least(TENSOR_BLOCK, elements - t * TENSOR_BLOCK),
                          out + t * TENSOR_BLOCK);
    }
}
