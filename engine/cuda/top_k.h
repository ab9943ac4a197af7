/* top_k: the best of rows of floats, and their softmax; a block takes a row. */
#ifndef ENGINE_CUDA_TOP_K_H
#define ENGINE_CUDA_TOP_K_H

#include "engine/cuda/run.h"

/* Rows of `columns` floats of a model's output, whose items are those of `wanted`. */
struct output_rows {
    int64_t rows, columns;
    const struct wanted_row *wanted;
    float *x;
};

/* In place, of rows that want it; but not where cuda_top_k finds the few best without. Any NaN makes all of a row NaN.
 */
void cuda_softmax(struct cuda_run *run, const struct output_rows *output);

/* The best of each row, as many as its item wants, best first: values and columns, `room` of them a row. NaNs are the
 * best, ties go by column, as on the CPU. Behind cuda_softmax. */
void cuda_top_k(struct cuda_run *run, const struct output_rows *output, int64_t room, float *values, int32_t *columns);

#endif
