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
template <typename T> void cuda_cut_padding(struct cuda_run *run, const struct plan_step *step);

static __device__ __forceinline__ float activation_of(enum activation activation, float x)
{
    if (activation == ACTIVATION_GELU) /* x Φ(x); erfc keeps its digits where Φ is small */
        return 0.5f * x * erfcf(x * -0.70710678118654752f);
    if (activation == ACTIVATION_RELU)
        return x < 0 ? 0 : x; /* a NaN stays one */
    return x;
}

#endif
