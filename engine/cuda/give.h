/* give: the last operations of a plan, whose results are copied from the device into the items' buffers. */
#ifndef ENGINE_CUDA_GIVE_H
#define ENGINE_CUDA_GIVE_H

#include "engine/cuda/run.h"

template <typename T> void cuda_give_hidden(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_give_pooled(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_give_output(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_give_image(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_give_tensor(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_give_image_scratch(const struct plan *plan, const struct plan_step *step);
int64_t cuda_give_pooled_scratch(const struct plan *plan, const struct plan_step *step);
int64_t cuda_give_output_scratch(const struct plan *plan, const struct plan_step *step);

#endif
