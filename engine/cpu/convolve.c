/* convolve: computes a convolution along the sequence as a matrix product. Each window is gathered into a row, and
 * these rows are multiplied by W. Row j of y is computed from rows [j * stride, (j + 1) * stride) of x, so windows do
 * not overlap. */
#include "engine/cpu/convolve.h"

#include <string.h>

#define WINDOWS_PER_TILE 16 /* number of windows of a task, which computes one group of columns */

struct sequence_convolution {
    const struct cpu_run *run;
    const struct plan_step *step;
    const float *x;      /* (rows, columns). The columns are groups of d columns */
    const float *weight; /* (weights * d, d * stride), where each W is (out, in, stride) as in nn.Conv1d */
    const float *bias;   /* (weights, d) */
    float *y;            /* (sequences * k, columns) */
    int64_t columns, d, stride, k;
    int64_t weights; /* number of matrices W: 1 if all groups share one, and the number of groups otherwise */
};

/* Gathers one window: out[i, t] = x[window * stride + t, i]. `out` is (d, stride). x contains the `rows` rows of a
 * sequence. Rows after them count as 0. */
static void gather_rows(const struct sequence_convolution *c, const float *x, int64_t rows, int64_t window, float *out)
{
    int64_t first = window * c->stride;
    for (int64_t i = 0; i < c->d; i++)
        for (int64_t t = 0; t < c->stride; t++)
            out[i * c->stride + t] = first + t < rows ? x[(first + t) * c->columns + i] : 0;
}

static void convolve_tile(const struct sequence_convolution *c, int64_t sequence, int64_t group, int64_t first_window)
{
    const struct layout *from = layout_of(c->run, c->step->x);
    const float *x = c->x + from->starts[sequence] * c->columns + group * c->d;
    int64_t rows = from->starts[sequence + 1] - from->starts[sequence], depth = c->d * c->stride;
    int64_t windows = least(WINDOWS_PER_TILE, c->k - first_window), which = c->weights > 1 ? group : 0;
    float *gathered = scratch_of(c->run);
    float *y = c->y + (sequence * c->k + first_window) * c->columns + group * c->d;
    for (int64_t w = 0; w < windows; w++)
        gather_rows(c, x, rows, first_window + w, gathered + w * depth);
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
    int64_t columns = plan->values[step->x].columns, d = columns / step->convolve_sequence.groups;
    struct sequence_convolution c = {
        .run = run,
        .step = step,
        .x = floats_of(run, step->x),
        .weight = weight_of(run, step->weight),
        .bias = bias->data,
        .y = floats_of(run, step->y),
        .columns = columns,
        .d = d,
        .stride = step->convolve_sequence.stride,
        .k = rows_per_sequence_of(plan, step->y),
        .weights = bias->rows * bias->columns / d,
    };
    int64_t tiles = parts_of(c.k, WINDOWS_PER_TILE),
            tasks = layout_of(run, step->x)->n_sequences * step->convolve_sequence.groups * tiles;
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        convolve_tile(&c, t / tiles / step->convolve_sequence.groups, t / tiles % step->convolve_sequence.groups,
                      t % tiles * WINDOWS_PER_TILE);
}

int64_t cpu_convolve_sequence_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return WINDOWS_PER_TILE * (run->plan->values[step->x].columns / step->convolve_sequence.groups) *
           step->convolve_sequence.stride;
}
