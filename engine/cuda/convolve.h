/* convolve: convolutions along the sequence, OP_CONVOLVE_SEQUENCE. */
#ifndef ENGINE_CUDA_CONVOLVE_H
#define ENGINE_CUDA_CONVOLVE_H

#include "engine/cuda/run.h"

template <typename T> void cuda_convolve_sequence(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_convolve_sequence_scratch(const struct plan *plan, const struct plan_step *step);

#endif
