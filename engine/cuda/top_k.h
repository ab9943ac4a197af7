/* top_k: the softmax, log-probabilities and the largest columns of rows of floats. A block computes a row. */
#ifndef ENGINE_CUDA_TOP_K_H
#define ENGINE_CUDA_TOP_K_H

#include "engine/cuda/run.h"

/* Rows of a model's output. */
struct output_rows {
    int64_t rows, columns;
    const struct wanted_row *wanted; /* (rows): contains the item and the target of each row */
    float *x;                        /* (rows, columns) */
};

/* Writes the log-probability of each row's target to `to` (rows), or 0 for a row without a target. Call it before
 * cuda_softmax_output. */
void cuda_log_probabilities(struct cuda_run *run, const struct output_rows *output, float *to);

/* Computes the softmax in place, for the rows of items that request it. Skips rows of items with a top_k of 1 to WARP,
 * because cuda_top_k computes their softmax. If one element of a row is NaN, all results of the row are NaN. */
void cuda_softmax_output(struct cuda_run *run, const struct output_rows *output);

/* Writes the largest values of each row and their columns, in descending order. Their number is the top_k of the row's
 * item. `values` and `columns` are (rows, room). A NaN counts as larger than any number. Of equal values, the lower
 * column comes first. The CPU engine applies the same rules. Call it after cuda_softmax_output. */
void cuda_top_k(struct cuda_run *run, const struct output_rows *output, int64_t room, float *values, int32_t *columns);

#endif
