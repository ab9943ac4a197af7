/* linear_attend: OP_LINEAR_ATTEND. */
#ifndef ENGINE_CUDA_LINEAR_ATTEND_H
#define ENGINE_CUDA_LINEAR_ATTEND_H

#include "engine/cuda/run.h"

template <typename T> void cuda_linear_attend(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_linear_attend_scratch(const struct plan *plan, const struct plan_step *step);

#endif
