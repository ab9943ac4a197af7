/* convolve: convolutions along the sequence, and convolutions of images. */
#ifndef ENGINE_CUDA_CONVOLVE_H
#define ENGINE_CUDA_CONVOLVE_H

#include "engine/cuda/run.h"

template <typename T> void cuda_convolve_sequence(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_convolve_sequence_scratch(const struct plan *plan, const struct plan_step *step);
template <typename T> void cuda_convolve_image(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_convolve_image_scratch(const struct plan *plan, const struct plan_step *step);
template <typename T> void cuda_convolve_groups(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_convolve_groups_scratch(const struct plan *plan, const struct plan_step *step);
template <typename T> void cuda_convolve_channels(struct cuda_run *run, const struct plan_step *step);

#endif
