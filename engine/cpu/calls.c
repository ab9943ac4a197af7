/* A call's row p * width + s is position p of sequence s: a sequence is every width-th row. Tasks depend on the item
 * alone, so results do not depend on batch mates. */
#include "engine/cpu/calls.h"

#include <omp.h>
#include <string.h>

#define TILE_COLUMNS 64    /* of a projection's task */
#define BLOCK_POSITIONS 64 /* of an attention's task */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t tasks_for(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

static float *floats_of(const struct cpu_run *run, int value)
{
    return (float *)(run->arena + run->plan->values[value].offset);
}

/* The first element of the item's rows of a value. */
static float *item_of(const struct cpu_run *run, int value, int64_t item)
{
    const struct plan_value *of = &run->plan->values[value];
    return floats_of(run, value) + run->batch->layouts[of->axis].starts[item] * of->columns;
}

static int64_t width_of(const struct cpu_run *run, int value, int64_t item)
{
    int input = run->plan->axes[run->plan->values[value].axis].input;
    return padder_width(run->plan, &run->batch->items[item], input);
}

static int64_t positions_of(const struct cpu_run *run, int value, int64_t item)
{
    const int64_t *starts = run->batch->layouts[run->plan->values[value].axis].starts;
    return (starts[item + 1] - starts[item]) / width_of(run, value, item);
}

/* ---- y[s, c, j] = sum over p of E[j, p] X[p, s, c] + e[j] ---- */

/* Columns [column, column + TILE_COLUMNS) of all sequences' columns side by side, (width * d): X's columns are y's
 * rows. A tile may hold columns of two sequences. */
static void project_tile(const struct cpu_run *run, const struct plan_step *step, int64_t item, int64_t column)
{
    const struct plan_weight *e = &run->plan->weights[step->weight];
    const float *bias = run->plan->weights[step->bias].data;
    const float *tail = step->tail == PLAN_NONE ? NULL : run->plan->weights[step->tail].data;
    int64_t d = run->plan->values[step->x].columns, all = width_of(run, step->x, item) * d, k = e->rows;
    int64_t n = positions_of(run, step->x, item), count = least(TILE_COLUMNS, all - column);
    float *y = item_of(run, step->y, item) + column * k;
    products_multiply(run->products, &(struct product){
                                         .m = count,
                                         .n = k,
                                         .k = n,
                                         .a = item_of(run, step->x, item) + column,
                                         .a_stride = all,
                                         .transpose_a = true,
                                         .b = e->data,
                                         .b_stride = e->columns,
                                         .transpose_b = true,
                                         .c = y,
                                         .c_stride = k,
                                     });
    for (int64_t c = 0; c < count; c++)
        for (int64_t j = 0; j < k; j++)
            y[c * k + j] += bias[j] + (tail ? tail[(column + c) % d] * e->data[j * e->columns + n] : 0);
}

void cpu_project_call(const struct cpu_run *run, const struct plan_step *step)
{
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        int64_t all = width_of(run, step->x, item) * run->plan->values[step->x].columns;
        int64_t tasks = tasks_for(all, TILE_COLUMNS);
#pragma omp parallel for num_threads(tasks > 1 ? run->threads : 1) schedule(dynamic)
        for (int64_t t = 0; t < tasks; t++)
            project_tile(run, step, item, t * TILE_COLUMNS);
    }
}

/* ---- Attention within each sequence ---- */

/* Adds a head's (rows, keys) to their sum. The last head divides it. */
static void add_weights(int64_t head, int64_t heads, int64_t n, const float *weights, float *sum)
{
    for (int64_t i = 0; i < n; i++)
        sum[i] = head == 0 ? weights[i] : sum[i] + weights[i];
    for (int64_t i = 0; head == heads - 1 && i < n; i++)
        sum[i] /= (float)heads;
}

/* Positions [first, first + BLOCK_POSITIONS) of one sequence, head after head: their weights are summed in that order.
 */
static void attend_block(const struct cpu_run *run, const struct plan_step *step, int64_t index, int64_t sequence,
                         int64_t first)
{
    const struct engine_item *item = &run->batch->items[index];
    int64_t columns = run->plan->values[step->x].columns, dim_head = columns / step->heads;
    int64_t width = width_of(run, step->x, index), stride = width * columns, own = positions_of(run, step->x, index);
    int64_t rows = least(BLOCK_POSITIONS, own - first), k = positions_of(run, step->keys, index);
    int64_t zero_keys = step->key_room > k ? step->key_room - k : 0, keys = k + zero_keys;
    float *wanted = cpu_wanted_attention(item, step);
    float *weights = run->scratch + omp_get_thread_num() * run->scratch_floats;
    float *packed = weights + BLOCK_POSITIONS * keys;
    for (int64_t head = 0; head < step->heads; head++) {
        int64_t column = sequence * columns + head * dim_head;
        run->vector->pack_keys(
            &(struct vector_keys){
                .k = k,
                .dim_head = dim_head,
                .dim_value = dim_head,
                .keys = item_of(run, step->keys, index) + column,
                .key_stride = stride,
                .values = item_of(run, step->values, index) + column,
                .value_stride = stride,
            },
            packed);
        run->vector->attend(&(struct vector_attend){
            .rows = rows,
            .k = k,
            .dim_head = dim_head,
            .dim_value = dim_head,
            .queries = item_of(run, step->x, index) + first * stride + column,
            .query_stride = stride,
            .packed = packed,
            .scale = step->scale,
            .mask = cpu_attention_mask(item, step, k, sequence * step->heads + head, first),
            .zero_keys = zero_keys,
            .out = item_of(run, step->y, index) + first * stride + column,
            .out_stride = stride,
            .weights = wanted ? weights : NULL,
            .weights_rows = rows,
            .scratch = packed + vector_packed_keys(k, dim_head, dim_head),
        });
        if (wanted)
            add_weights(head, step->heads, rows * keys, weights, wanted + (sequence * own + first) * keys);
    }
}

void cpu_attend_call(const struct cpu_run *run, const struct plan_step *step)
{
    for (int64_t item = 0; item < run->batch->n_items; item++) {
        int64_t blocks = tasks_for(positions_of(run, step->x, item), BLOCK_POSITIONS);
        int64_t tasks = width_of(run, step->x, item) * blocks;
#pragma omp parallel for num_threads(tasks > 1 ? run->threads : 1) schedule(dynamic)
        for (int64_t t = 0; t < tasks; t++)
            attend_block(run, step, item, t / blocks, t % blocks * BLOCK_POSITIONS);
    }
}

/* A call's keys are projected: k for each n positions. */
int64_t cpu_attend_call_scratch(const struct plan *plan, const struct plan_step *step)
{
    int64_t k = plan->axes[plan->values[step->keys].axis].k, dim_head = plan->values[step->x].columns / step->heads;
    int64_t keys = step->key_room > k ? step->key_room : k;
    return BLOCK_POSITIONS * keys + vector_packed_keys(k, dim_head, dim_head) +
           vector_attend_scratch(dim_head, dim_head);
}
