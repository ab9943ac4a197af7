/* reduce: operations that combine several elements: sums, maxima, the softmax, group norms, and products over a space.
 */
#ifndef ENGINE_CUDA_REDUCE_H
#define ENGINE_CUDA_REDUCE_H

#include "engine/cuda/run.h"

template <typename T> void cuda_group_norm(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_reduce(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_softmax(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_multiply(struct cuda_run *run, const struct plan_step *step);

#endif
