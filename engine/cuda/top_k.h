/* top_k: softmax and best columns of rows of floats. A block computes a row. */
#ifndef ENGINE_CUDA_TOP_K_H
#define ENGINE_CUDA_TOP_K_H

#include "engine/cuda/run.h"

/* Rows of a model's output. */
struct output_rows {
    int64_t rows, columns;
    const struct wanted_row *wanted; /* (rows): with the item of each row */
    float *x;                        /* (rows, columns) */
};

/* Softmax in place, for rows whose item wants it. Rows of which cuda_top_k finds a few best are left to it. One NaN
 * makes all of a row NaN. */
void cuda_softmax_output(struct cuda_run *run, const struct output_rows *output);

/* Writes the best of each row, as many as its item wants, best first: values and columns (rows, room). A NaN is better
 * than any number, and of equal values the first column is, as on the CPU. Call it after cuda_softmax_output. */
void cuda_top_k(struct cuda_run *run, const struct output_rows *output, int64_t room, float *values, int32_t *columns);

#endif
