/* A task normalises some columns of one sequence, in whole groups. It reads the rows three times: for the mean, for the
 * variance and for the result. */
#include "engine/cpu/group_norm.h"

#include <math.h>
#include <string.h>

/* Number of columns of a task, rounded up to whole groups. The last task of a sequence may have fewer. */
#define TASK_COLUMNS 64

struct group_norm_step {
    const struct cpu_run *run;
    const struct plan_step *step;
    int64_t columns, size; /* number of columns of x, and of a group */
    int64_t task_columns;  /* number of columns of a task, which are whole groups */
};

/* Scratch of a task. Each array has an element for each column of the task. */
struct statistics {
    double *sums;
    float *mean, *factor;
};

/* The mean of `count` elements of a group. `sums` contains the sum of each column of the group. */
static double mean_of_group(int64_t size, const double *sums, double count)
{
    double sum = 0;
    for (int64_t i = 0; i < size; i++)
        sum += sums[i];
    return sum / count;
}

/* Computes mean and factor for columns [first, first + columns) of x (rows, columns). */
static void find_statistics(const struct group_norm_step *norm, int64_t rows, int64_t first, int64_t columns,
                            const float *x, struct statistics statistics)
{
    const struct vector_functions *vector = norm->run->vector;
    const float *gain = weight_of(norm->run, norm->step->weight);
    double count = (double)(rows * norm->size);
    memset(statistics.sums, 0, (size_t)columns * sizeof *statistics.sums);
    vector->sum_columns(rows, columns, x, norm->columns, NULL, statistics.sums);
    for (int64_t c = 0; c < columns; c += norm->size) {
        double mean = mean_of_group(norm->size, statistics.sums + c, count);
        for (int64_t i = c; i < c + norm->size; i++)
            statistics.mean[i] = (float)mean;
    }
    memset(statistics.sums, 0, (size_t)columns * sizeof *statistics.sums);
    vector->sum_columns(rows, columns, x, norm->columns, statistics.mean, statistics.sums);
    for (int64_t c = 0; c < columns; c += norm->size) {
        double variance = mean_of_group(norm->size, statistics.sums + c, count);
        float scale = (float)(1 / sqrt(variance + (double)norm->step->group_norm.epsilon));
        for (int64_t i = c; i < c + norm->size; i++)
            statistics.factor[i] = gain ? scale * gain[first + i] : scale;
    }
}

static void normalise(const struct group_norm_step *norm, struct padder_sequence sequence, int64_t first)
{
    const struct cpu_run *run = norm->run;
    int64_t columns = least(norm->task_columns, norm->columns - first);
    int64_t place = sequence.first * norm->columns + first;
    const float *x = floats_of(run, norm->step->x) + place, *bias = weight_of(run, norm->step->bias);
    double *sums = (double *)scratch_of(run); /* (columns) doubles, followed by mean (columns) and factor (columns) */
    struct statistics statistics = {sums, (float *)(sums + columns), (float *)(sums + columns) + columns};
    find_statistics(norm, sequence.rows, first, columns, x, statistics);
    run->vector->normalise_rows(sequence.rows, columns, x, norm->columns, statistics.mean, statistics.factor,
                                bias ? bias + first : NULL, floats_of(run, norm->step->y) + place);
}

void cpu_group_norm(const struct cpu_run *run, const struct plan_step *step)
{
    int axis = run->plan->values[step->x].axis;
    struct group_norm_step norm = {.run = run, .step = step, .columns = columns_of(run, step->x)};
    norm.size = norm.columns / step->group_norm.groups;
    norm.task_columns = parts_of(TASK_COLUMNS, norm.size) * norm.size;
    int64_t parts = parts_of(norm.columns, norm.task_columns);
    int64_t tasks = parts * run->batch->layouts[axis].n_sequences;
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        normalise(&norm, padder_sequence(run->plan, run->batch, axis, t / parts), t % parts * norm.task_columns);
}

int64_t cpu_group_norm_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return 4 * columns_of(run, step->x); /* in floats. A double is as large as two floats */
}
