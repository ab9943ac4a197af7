/* project: projections along the sequence, from n rows to k rows. The launch of a step may also compute the next step
 * (fusion.h). */
#ifndef ENGINE_CUDA_PROJECT_H
#define ENGINE_CUDA_PROJECT_H

#include "engine/cuda/run.h"

template <typename T> void cuda_project_sequence(struct cuda_run *run, const struct plan_step *step);
template <typename T> int64_t cuda_project_sequence_scratch(const struct plan *plan, const struct plan_step *step);
template <typename T> void cuda_project_call(struct cuda_run *run, const struct plan_step *step);

/* Whether one launch can compute the step and the next step. Both must project the same x, and may differ only in
 * weights and y. */
bool cuda_projects_pair(const struct plan *plan, const struct plan_step *step);

/* Whether the launch of the step reads the lengths of the batch's sequences on the host. If so, no graph can replay the
 * batch. */
bool cuda_projects_by_length(const struct cuda_run *run, const struct plan_step *step);

#endif
