/* project: projections along the sequence, from n rows to k. */
#ifndef ENGINE_CUDA_PROJECT_H
#define ENGINE_CUDA_PROJECT_H

#include "engine/cuda/run.h"

template <typename T> void cuda_project_sequence(struct cuda_run *run, const struct plan_step *step);
template <typename T> int64_t cuda_project_sequence_scratch(const struct plan *plan, const struct plan_step *step);

#endif
