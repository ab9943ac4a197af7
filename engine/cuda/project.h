/* project: projections along the sequence, from n rows to k; fusion.h says whether a step's launch does the next, too.
 */
#ifndef ENGINE_CUDA_PROJECT_H
#define ENGINE_CUDA_PROJECT_H

#include "engine/cuda/run.h"

template <typename T> void cuda_project_sequence(struct cuda_run *run, const struct plan_step *step);
template <typename T> int64_t cuda_project_sequence_scratch(const struct plan *plan, const struct plan_step *step);
template <typename T> void cuda_project_call(struct cuda_run *run, const struct plan_step *step);

/* Whether one launch can do the step and the next one: both project the same x, and differ only in weights and y. */
bool cuda_projects_pair(const struct plan *plan, const struct plan_step *step);

#endif
