/* local_attend: OP_LOCAL_ATTEND. */
#ifndef ENGINE_CUDA_LOCAL_ATTEND_H
#define ENGINE_CUDA_LOCAL_ATTEND_H

#include "engine/cuda/run.h"

template <typename T> void cuda_local_attend(struct cuda_run *run, const struct plan_step *step);

#endif
