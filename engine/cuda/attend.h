/* attend: softmax attention over keys and values. OP_ATTEND reads the sequences of an axis. OP_ATTEND_CALL reads calls,
 * which are items of several sequences (plan.h). */
#ifndef ENGINE_CUDA_ATTEND_H
#define ENGINE_CUDA_ATTEND_H

#include "engine/cuda/run.h"

template <typename T> void cuda_attend(struct cuda_run *run, const struct plan_step *step);      /* OP_ATTEND */
template <typename T> void cuda_attend_call(struct cuda_run *run, const struct plan_step *step); /* OP_ATTEND_CALL */
int64_t cuda_attend_scratch(const struct plan *plan, const struct plan_step *step);

#endif
