/* project: computes y (k, columns) = Eᵀ x + e for each sequence x (n, columns). Only the first n rows of E are used.
 *
 * A task is a sequence and a tile of columns. In bf16 a task may compute only a part of the k rows of y. A sequence
 * longer than CHUNK_ROWS is projected in chunks of rows, whose results are added in a fixed order. So the order of
 * additions depends only on the length of the sequence. */
#include "engine/cpu/project.h"

#define TILE_COLUMNS 64 /* number of columns of x in a task */
#define TASK_ROWS 256   /* maximum number of rows of y that a task in bf16 computes */
#define CHUNK_ROWS 8192 /* number of rows of x in a chunk */
#define SUMS_AT_ONCE 64 /* number of columns of E that are summed up at the same time */

_Static_assert(TILE_COLUMNS <= VECTOR_PANEL, "a tile fits into a panel");

/* The parameters of a step, with pointers to its matrices. Each group of columns has its own E and bias. A tile belongs
 * to one group. */
struct sequence_projection {
    const struct cpu_run *run;
    const struct plan_step *step;
    const struct layout *from, *to; /* layouts of x and of y */
    const char *x;                  /* (rows, columns) */
    char *y;                        /* (sequences * k, y_columns) */
    enum element x_element, y_element;
    const float *weight;                 /* E of all groups: (groups * n, k). If transposed, it is (groups * k, n) */
    const struct product_weight *packed; /* the same weight packed in bf16. NULL if products are in float */
    const float *bias;                   /* e of all groups: (groups, k). NULL if there is no bias */
    int64_t columns, y_columns, k;
    int64_t groups, group_columns, tiles;
    int64_t weight_columns, weight_rows; /* shape of the stored E of one group */
    bool transposed;
    /* After the columns for x, y may have a column with sums of E, and a column with biases. */
    bool sums_column, bias_column;
};

static struct sequence_projection projection_of(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    const struct plan_weight *weight = &plan->weights[step->weight];
    int64_t columns = plan->values[step->x].columns, groups = step->project_sequence.groups;
    return (struct sequence_projection){
        .run = run,
        .step = step,
        .from = layout_of(run, step->x),
        .to = layout_of(run, step->y),
        .x = elements_of(run, step->x, 0),
        .x_element = run->elements[step->x],
        .y_element = run->elements[step->y],
        .weight = weight->data,
        .packed = run->projections[step->weight],
        .bias = weight_of(run, step->bias),
        .y = elements_of(run, step->y, 0),
        .columns = columns,
        .y_columns = plan->values[step->y].columns,
        .k = rows_per_sequence_of(plan, step->y),
        .groups = groups,
        .group_columns = columns / groups,
        .tiles = parts_of(columns / groups, TILE_COLUMNS) * groups,
        .weight_columns = weight->columns,
        .weight_rows = weight->rows / groups,
        .transposed = step->project_sequence.transposed,
        .sums_column = step->project_sequence.sums_column,
        .bias_column = step->project_sequence.bias_column,
    };
}

/* The memory for the result (k, y_columns) of a sequence or of a chunk. */
struct target {
    char *out;
    enum element element;
    bool with_bias; /* true only for the first chunk, because the bias is added once */
};

/* Writes columns [column, column + width) of row j of the target. */
static void write_row(const struct sequence_projection *p, const struct target *target, int64_t j, int64_t column,
                      int64_t width, const float *row)
{
    p->run->vector->finish_linear(&(struct vector_finish){
        .rows = 1,
        .columns = width,
        .x = row,
        .y_element = target->element,
        .y = target->out + (j * p->y_columns + column) * element_bytes(target->element),
    });
}

/* Writes the columns of y that follow the columns for x. In row j of y, the first is the sum of E[p, j] over `rows`
 * positions p. The second is e[j], or 0 without target->with_bias. `weight` points to E at the first of these
 * positions. */
static void add_columns(const struct sequence_projection *p, const float *weight, int64_t rows,
                        const struct target *target)
{
    int64_t along = p->transposed ? 1 : p->weight_columns;  /* number of floats from one position to the next */
    int64_t across = p->transposed ? p->weight_columns : 1; /* number of floats from one j to the next */
    for (int64_t j = 0; p->sums_column && j < p->k; j += SUMS_AT_ONCE) {
        int64_t count = least(SUMS_AT_ONCE, p->k - j);
        double sums[SUMS_AT_ONCE] = {0};
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < count; i++)
                sums[i] += (double)weight[r * along + (j + i) * across];
        for (int64_t i = 0; i < count; i++)
            write_row(p, target, j + i, p->columns, 1, &(float){(float)sums[i]});
    }
    for (int64_t j = 0; p->bias_column && j < p->k; j++)
        write_row(p, target, j, p->columns + p->sums_column, 1, &(float){target->with_bias ? p->bias[j] : 0});
}

/* A task: reads rows [first, first + rows) of a sequence, in one tile of columns. Computes rows [k, k_end) of y. */
struct project_task {
    int64_t sequence, first, rows, tile, k, k_end;
};

static int64_t task_group(const struct sequence_projection *p, const struct project_task *task)
{
    return task->tile / (p->tiles / p->groups);
}

static const void *task_rows(const struct sequence_projection *p, const struct project_task *task, int64_t column)
{
    return p->x + ((p->from->starts[task->sequence] + task->first) * p->columns + column) * element_bytes(p->x_element);
}

/* Computes a task if products are in bf16. The result is computed in scratch, in float. */
static void project_packed(const struct sequence_projection *p, const struct project_task *task, int64_t column,
                           int64_t width, const struct target *target)
{
    int64_t first_k = task_group(p, task) * p->k + task->k, k = task->k_end - task->k;
    float *sums = products_project(p->run->products,
                                   &(struct product_projection){
                                       .weight = p->packed,
                                       .first_k = first_k,
                                       .k = k,
                                       .first = task->first,
                                       .rows = task->rows,
                                       .columns = width,
                                       .x = task_rows(p, task, column),
                                       .x_stride = p->columns,
                                       .x_element = p->x_element,
                                   },
                                   scratch_of(p->run));
    for (int64_t j = 0; j < k; j++, sums += VECTOR_PANEL) {
        for (int64_t c = 0; target->with_bias && p->bias && !p->bias_column && c < width; c++)
            sums[c] += p->bias[first_k + j];
        write_row(p, target, task->k + j, column, width, sums);
    }
}

/* Computes a task if products are in float. `weight` points to E at the first position of the task. */
static void project_floats(const struct sequence_projection *p, const struct project_task *task, int64_t column,
                           int64_t width, const float *weight, const struct target *target)
{
    float *out = (float *)target->out;
    products_multiply(p->run->products, &(struct product){
                                            .m = p->k,
                                            .n = width,
                                            .k = task->rows,
                                            .a = weight,
                                            .a_stride = p->weight_columns,
                                            .transpose_a = !p->transposed,
                                            .b = task_rows(p, task, column),
                                            .b_stride = p->columns,
                                            .c = out + column,
                                            .c_stride = p->y_columns,
                                        });
    for (int64_t j = 0; target->with_bias && p->bias && !p->bias_column && j < p->k; j++)
        for (int64_t c = 0; c < width; c++)
            out[j * p->y_columns + column + c] += p->bias[task_group(p, task) * p->k + j];
}

static void project_tile(const struct sequence_projection *p, const struct project_task *task,
                         const struct target *target)
{
    int64_t group = task_group(p, task);
    int64_t in_group = task->tile % (p->tiles / p->groups) * TILE_COLUMNS;
    int64_t column = group * p->group_columns + in_group, width = least(TILE_COLUMNS, p->group_columns - in_group);
    const float *weight = p->weight;
    if (weight) {
        weight += group * p->weight_rows * p->weight_columns;
        weight += p->transposed ? task->first : task->first * p->weight_columns;
    }
    if (p->packed)
        project_packed(p, task, column, width, target);
    else
        project_floats(p, task, column, width, weight, target);
    if (task->tile == 0 && task->k == 0 && p->y_columns > p->columns)
        add_columns(p, weight, task->rows, target);
}

static int64_t sequence_rows(const struct sequence_projection *p, int64_t sequence)
{
    return p->from->starts[sequence + 1] - p->from->starts[sequence];
}

static char *result_of(const struct sequence_projection *p, int64_t sequence)
{
    return p->y + p->to->starts[sequence] * p->y_columns * element_bytes(p->y_element);
}

/* The number of rows of y that a task computes. In bf16, it is at most TASK_ROWS. It is smaller if some threads would
 * have no task otherwise. It is not made smaller than necessary, because each task packs its columns of x again. The
 * number does not change the bits of results. */
static int64_t rows_a_task(const struct sequence_projection *p, int64_t tasks)
{
    int64_t parts = parts_of(p->run->threads, tasks > 0 ? tasks : 1);
    if (!p->packed)
        return p->k;
    return least(TASK_ROWS, parts_of(p->k, parts));
}

/* Computes all sequences of at most CHUNK_ROWS rows. */
static void project_short(const struct sequence_projection *p)
{
    int64_t each = rows_a_task(p, p->from->n_sequences * p->tiles), parts = parts_of(p->k, each);
    int64_t tasks = p->from->n_sequences * p->tiles * parts;
#pragma omp parallel for num_threads(threads_for(p->run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t sequence = t / parts / p->tiles;
        if (sequence_rows(p, sequence) > CHUNK_ROWS || !cpu_selects(p->run, p->step, sequence))
            continue;
        const struct project_task task = {
            .sequence = sequence,
            .rows = sequence_rows(p, sequence),
            .tile = t / parts % p->tiles,
            .k = t % parts * each,
            .k_end = least(p->k, (t % parts + 1) * each),
        };
        project_tile(p, &task, &(struct target){result_of(p, sequence), p->y_element, true});
    }
}

/* Computes a sequence of several chunks. The result (k, y_columns) of each chunk is written to shared scratch. The sum
 * of these results is written to y. */
static void project_long(const struct sequence_projection *p, int64_t sequence)
{
    int64_t rows = sequence_rows(p, sequence), chunks = parts_of(rows, CHUNK_ROWS), size = p->k * p->y_columns;
    int64_t each = rows_a_task(p, chunks * p->tiles), parts = parts_of(p->k, each);
    int64_t tasks = chunks * p->tiles * parts;
    float *partial = shared_scratch_of(p->run);
#pragma omp parallel for num_threads(p->run->threads) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t chunk = t / parts / p->tiles, first = chunk * CHUNK_ROWS;
        const struct project_task task = {
            .sequence = sequence,
            .first = first,
            .rows = least(CHUNK_ROWS, rows - first),
            .tile = t / parts % p->tiles,
            .k = t % parts * each,
            .k_end = least(p->k, (t % parts + 1) * each),
        };
        project_tile(p, &task, &(struct target){(char *)(partial + chunk * size), ELEMENT_F32, chunk == 0});
    }
    for (int64_t chunk = 1; chunk < chunks; chunk++)
        p->run->vector->add(size, partial, partial + chunk * size, 1.0f, partial);
    for (int64_t j = 0; j < p->k; j++)
        write_row(p, &(struct target){result_of(p, sequence), p->y_element, false}, j, 0, p->y_columns,
                  partial + j * p->y_columns);
}

void cpu_project_sequence(const struct cpu_run *run, const struct plan_step *step)
{
    struct sequence_projection p = projection_of(run, step);
    project_short(&p);
    for (int64_t sequence = 0; sequence < p.from->n_sequences; sequence++)
        if (sequence_rows(&p, sequence) > CHUNK_ROWS && cpu_selects(run, step, sequence))
            project_long(&p, sequence);
}

int64_t cpu_project_sequence_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return products_project_scratch(run->products, least(rows_per_sequence_of(run->plan, step->y), TASK_ROWS));
}

/* Number of floats for the result of each chunk of the longest sequence: (chunks, k, y_columns). */
int64_t cpu_project_sequence_shared_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    if (plan->max_rows <= CHUNK_ROWS)
        return 0;
    return parts_of(plan->max_rows, CHUNK_ROWS) * rows_per_sequence_of(plan, step->y) * plan->values[step->y].columns;
}

/* ---- OP_PROJECT_CALL: an item is w sequences ---- */

/* Row p * w + s of x is position p of sequence s. So x is also a matrix (n, w * d). Each column of this matrix yields
 * one row of k results, and these rows are stored as (w, d, k). Later steps read the same memory as a matrix y (k * w,
 * d). */

/* Computes columns [column, column + TILE_COLUMNS) of the item's w * d columns. A tile may contain columns of several
 * sequences. */
static void project_call_tile(const struct cpu_run *run, const struct plan_step *step, int64_t b, int64_t column)
{
    const struct plan_weight *e = &run->plan->weights[step->weight];
    const float *bias = weight_of(run, step->bias); /* (k) */
    /* (d): an additional last position of every sequence. NULL if there is none. */
    const float *tail = weight_of(run, step->tail);
    int64_t d = columns_of(run, step->x), width = width_of(run, step->x, b), columns = width * d, k = e->rows;
    const int64_t *from = layout_of(run, step->x)->starts + b, *to = layout_of(run, step->y)->starts + b;
    int64_t n = (from[1] - from[0]) / width, count = least(TILE_COLUMNS, columns - column);
    float *y = floats_of(run, step->y) + to[0] * columns_of(run, step->y) + column * k;
    products_multiply(run->products, &(struct product){
                                         .m = count,
                                         .n = k,
                                         .k = n,
                                         .a = floats_of(run, step->x) + from[0] * d + column,
                                         .a_stride = columns,
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
    for (int64_t b = 0; b < run->batch->n_items; b++) {
        int64_t columns = width_of(run, step->x, b) * columns_of(run, step->x);
        int64_t tasks = parts_of(columns, TILE_COLUMNS);
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
        for (int64_t t = 0; t < tasks; t++)
            project_call_tile(run, step, b, t * TILE_COLUMNS);
    }
}
