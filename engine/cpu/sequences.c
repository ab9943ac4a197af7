#include "engine/cpu/sequences.h"

#include <omp.h>
#include <string.h>

#define TILE_COLUMNS 64 /* of a projection's task */
#define CHUNK_ROWS 8192 /* a longer sequence is projected in chunks, which are summed in their order */
#define WINDOWS_PER_TILE 16
#define SUMS_AT_ONCE 64 /* of E's columns */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t tasks_for(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

/* A projection step with its pointers. Columns are cut into tiles within their group. */
struct projection {
    const struct cpu_run *run;
    const struct plan_step *step;
    const struct layout *from, *to;
    const float *x, *weight, *bias;
    float *y;
    int64_t columns, y_columns, group_columns, tiles, weight_columns, weight_rows, k;
};

static struct projection projection_of(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    const struct plan_weight *weight = &plan->weights[step->weight];
    int64_t columns = plan->values[step->x].columns;
    return (struct projection){
        .run = run,
        .step = step,
        .from = &run->batch->layouts[plan->values[step->x].axis],
        .to = &run->batch->layouts[plan->values[step->y].axis],
        .x = (const float *)(run->arena + plan->values[step->x].offset),
        .weight = weight->data,
        .bias = step->bias == PLAN_NONE ? NULL : plan->weights[step->bias].data,
        .y = (float *)(run->arena + plan->values[step->y].offset),
        .columns = columns,
        .y_columns = plan->values[step->y].columns,
        .group_columns = columns / step->groups,
        .tiles = tasks_for(columns / step->groups, TILE_COLUMNS) * step->groups,
        .weight_columns = weight->columns,
        .weight_rows = weight->rows / step->groups,
        .k = plan->axes[plan->values[step->y].axis].rows_per_item,
    };
}

/* The columns of out (k, y_columns) beyond x's: sums of E's rows [first, first + rows), and biases. `weight` is E's
 * row, or column, `first`. */
static void add_columns(const struct projection *p, const float *weight, int64_t rows, float *out, bool with_bias)
{
    int64_t across = p->step->transposed ? 1 : p->weight_columns, along = p->step->transposed ? p->weight_columns : 1;
    float *column = out + p->columns;
    for (int64_t j = 0; p->step->sums_column && j < p->k; j += SUMS_AT_ONCE) {
        int64_t count = least(SUMS_AT_ONCE, p->k - j);
        double sums[SUMS_AT_ONCE] = {0};
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < count; i++)
                sums[i] += (double)weight[r * across + (j + i) * along];
        for (int64_t i = 0; i < count; i++)
            column[(j + i) * p->y_columns] = (float)sums[i];
    }
    column += p->step->sums_column;
    for (int64_t j = 0; p->step->bias_column && j < p->k; j++)
        column[j * p->y_columns] = with_bias ? p->bias[j] : 0;
}

/* Rows [first, first + rows) of an item through E, for one tile of columns: into those columns of out (k, y_columns).
 */
static void project_tile(const struct projection *p, int64_t item, int64_t first, int64_t rows, int64_t tile,
                         float *out, bool with_bias)
{
    int64_t tiles_a_group = p->tiles / p->step->groups, group = tile / tiles_a_group;
    int64_t in_group = tile % tiles_a_group * TILE_COLUMNS, column = group * p->group_columns + in_group;
    int64_t width = least(TILE_COLUMNS, p->group_columns - in_group);
    const float *weight = p->weight + group * p->weight_rows * p->weight_columns;
    weight += p->step->transposed ? first : first * p->weight_columns;
    products_multiply(p->run->products, &(struct product){
                                            .m = p->k,
                                            .n = width,
                                            .k = rows,
                                            .a = weight,
                                            .a_stride = p->weight_columns,
                                            .transpose_a = !p->step->transposed,
                                            .b = p->x + (p->from->starts[item] + first) * p->columns + column,
                                            .b_stride = p->columns,
                                            .c = out + column,
                                            .c_stride = p->y_columns,
                                        });
    for (int64_t j = 0; with_bias && p->bias && !p->step->bias_column && j < p->k; j++)
        for (int64_t c = 0; c < width; c++)
            out[j * p->y_columns + column + c] += p->bias[group * p->k + j];
    if (tile == 0 && p->y_columns > p->columns)
        add_columns(p, weight, rows, out, with_bias);
}

static int64_t rows_of(const struct projection *p, int64_t item)
{
    return p->from->starts[item + 1] - p->from->starts[item];
}

static float *result_of(const struct projection *p, int64_t item)
{
    return p->y + p->to->starts[item] * p->y_columns;
}

/* All items of at most a chunk. */
static void project_short(const struct projection *p)
{
    int64_t tasks = p->run->batch->n_items * p->tiles;
#pragma omp parallel for num_threads(tasks > 1 ? p->run->threads : 1) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t item = t / p->tiles;
        if (rows_of(p, item) <= CHUNK_ROWS && cpu_selects(p->run, p->step, item))
            project_tile(p, item, 0, rows_of(p, item), t % p->tiles, result_of(p, item), true);
    }
}

/* One item of several chunks: each into scratch, then their sum. The first has the bias. */
static void project_long(const struct projection *p, int64_t item)
{
    int64_t rows = rows_of(p, item), chunks = tasks_for(rows, CHUNK_ROWS), tasks = chunks * p->tiles;
    int64_t size = p->k * p->y_columns;
    float *partial = p->run->shared, *y = result_of(p, item);
#pragma omp parallel for num_threads(p->run->threads) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t chunk = t / p->tiles, first = chunk * CHUNK_ROWS;
        project_tile(p, item, first, least(CHUNK_ROWS, rows - first), t % p->tiles, partial + chunk * size, chunk == 0);
    }
    memcpy(y, partial, (size_t)size * sizeof *y);
    for (int64_t chunk = 1; chunk < chunks; chunk++)
        p->run->vector->add(size, y, partial + chunk * size, 1.0f, y);
}

void cpu_project_sequence(const struct cpu_run *run, const struct plan_step *step)
{
    struct projection p = projection_of(run, step);
    project_short(&p);
    for (int64_t item = 0; item < run->batch->n_items; item++)
        if (rows_of(&p, item) > CHUNK_ROWS && cpu_selects(run, step, item))
            project_long(&p, item);
}

int64_t cpu_project_scratch(const struct plan *plan, const struct plan_step *step)
{
    int64_t k = plan->axes[plan->values[step->y].axis].rows_per_item;
    return plan->max_rows > CHUNK_ROWS ? tasks_for(plan->max_rows, CHUNK_ROWS) * k * plan->values[step->y].columns : 0;
}

/* ---- Convolution: windows of `stride` rows, gathered as rows (d * stride), times W ---- */

struct convolution {
    const struct cpu_run *run;
    const struct plan_step *step;
    const float *x, *weight, *bias;
    float *y;
    int64_t columns, d, stride, k, weights; /* weights: 1 for all groups, or one each */
};

/* window[i * stride + t] = x[j * stride + t, i], as nn.Conv1d's weight (out, in, stride) lies; 0 beyond the rows. */
static void gather_window(const struct convolution *c, const float *x, int64_t rows, int64_t window, float *out)
{
    int64_t first = window * c->stride;
    for (int64_t i = 0; i < c->d; i++)
        for (int64_t t = 0; t < c->stride; t++)
            out[i * c->stride + t] = first + t < rows ? x[(first + t) * c->columns + i] : 0;
}

static void convolve_tile(const struct convolution *c, int64_t item, int64_t group, int64_t first_window)
{
    const struct layout *from = &c->run->batch->layouts[c->run->plan->values[c->step->x].axis];
    const float *x = c->x + from->starts[item] * c->columns + group * c->d;
    int64_t rows = from->starts[item + 1] - from->starts[item], depth = c->d * c->stride;
    int64_t windows = least(WINDOWS_PER_TILE, c->k - first_window), which = c->weights > 1 ? group : 0;
    float *gathered = c->run->scratch + omp_get_thread_num() * c->run->scratch_floats;
    float *y = c->y + (item * c->k + first_window) * c->columns + group * c->d;
    for (int64_t w = 0; w < windows; w++)
        gather_window(c, x, rows, first_window + w, gathered + w * depth);
    products_multiply(c->run->products, &(struct product){
                                            .m = windows,
                                            .n = c->d,
                                            .k = depth,
                                            .a = gathered,
                                            .a_stride = depth,
                                            .b = c->weight + which * c->d * depth,
                                            .b_stride = depth,
                                            .transpose_b = true,
                                            .c = y,
                                            .c_stride = c->columns,
                                        });
    for (int64_t w = 0; w < windows; w++)
        for (int64_t o = 0; o < c->d; o++)
            y[w * c->columns + o] += c->bias[which * c->d + o];
}

void cpu_convolve_sequence(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    const struct plan_weight *bias = &plan->weights[step->bias];
    int64_t columns = plan->values[step->x].columns, d = columns / step->groups;
    struct convolution c = {
        .run = run,
        .step = step,
        .x = (const float *)(run->arena + plan->values[step->x].offset),
        .weight = plan->weights[step->weight].data,
        .bias = bias->data,
        .y = (float *)(run->arena + plan->values[step->y].offset),
        .columns = columns,
        .d = d,
        .stride = step->stride,
        .k = plan->axes[plan->values[step->y].axis].rows_per_item,
        .weights = bias->rows * bias->columns / d,
    };
    int64_t tiles = tasks_for(c.k, WINDOWS_PER_TILE), tasks = run->batch->n_items * step->groups * tiles;
#pragma omp parallel for num_threads(tasks > 1 ? run->threads : 1) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        convolve_tile(&c, t / tiles / step->groups, t / tiles % step->groups, t % tiles * WINDOWS_PER_TILE);
}

int64_t cpu_convolve_scratch(const struct plan *plan, const struct plan_step *step)
{
    return WINDOWS_PER_TILE * (plan->values[step->x].columns / step->groups) * step->stride;
}
