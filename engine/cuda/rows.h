/* rows: operations on single rows, and on rows and their neighbours. */
#ifndef ENGINE_CUDA_ROWS_H
#define ENGINE_CUDA_ROWS_H

#include "engine/cuda/run.h"

template <typename T> void cuda_embed(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_add_positions(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_layer_norm(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_activate(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_add(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_mask_rows(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_add_sinusoids(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_concatenate(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_gate(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_shift_tokens(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_rotate(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_append_rows(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_gather_rows(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_gather_rows_scratch(const struct plan *plan, const struct plan_step *step);
template <typename T> void cuda_reshape(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_cut_padding(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_pad_rows(struct cuda_run *run, const struct plan_step *step);

/* Adds to `values` the rows of both position tables for a position. Like the library, the function first sums the two
 * rows. */
template <typename T, int N>
static __device__ __forceinline__ void add_tables(float (&values)[N], const T *major, const T *minor, int64_t column)
{
    float tables[N], minors[N];
    load(tables, major + column);
    if (minor)
        load(minors, minor + column);
    for (int i = 0; i < N; i++)
        values[i] += minor ? tables[i] + minors[i] : tables[i];
}

/* One element of a row that consists of `half` sines, followed by `half` cosines. Angles are products in float, as in
 * the library. */
static __device__ __forceinline__ float sinusoid(float position, const float *frequencies, int64_t column, int64_t half)
{
    float angle = position * frequencies[column % half];
    return column < half ? sinf(angle) : cosf(angle);
}

/* The parameters of OP_SHIFT_TOKENS. */
struct shifts {
    int64_t count, by[3];
};

static inline struct shifts shifts_of(const struct plan_step *step)
{
    struct shifts shifts = {step->shift_tokens.count,
                            {step->shift_tokens.by[0], step->shift_tokens.by[1], step->shift_tokens.by[2]}};
    return shifts;
}

/* The number of the segment that contains a column. It is shifts.count for columns after the last segment. */
static __device__ __forceinline__ int segment_of(const struct shifts &shifts, int64_t columns, int64_t column)
{
    /* A division of 32 bits is much faster than one of 64 bits. */
    int count = (int)shifts.count, segment_columns = (int)columns / count;
    int segment = segment_columns > 0 ? (int)column / segment_columns : count;
    return segment < count ? segment : count;
}

/* The shift of a column. It is 0 for columns after the last segment. */
static __device__ __forceinline__ int64_t shift_of(const struct shifts &shifts, int64_t columns, int64_t column)
{
    int segment = segment_of(shifts, columns, column);
    return segment < shifts.count ? shifts.by[segment] : 0;
}

#endif
