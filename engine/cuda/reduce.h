/* reduce: what becomes of several elements: sums, maxima, a softmax, norms of groups, and products over a space. */
#ifndef ENGINE_CUDA_REDUCE_H
#define ENGINE_CUDA_REDUCE_H

#include "engine/cuda/run.h"

template <typename T> void cuda_group_norm(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_reduce(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_softmax(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_multiply(struct cuda_run *run, const struct plan_step *step);

#endif
