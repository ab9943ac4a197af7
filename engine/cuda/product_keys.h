/* product_keys: OP_RETRIEVE. */
#ifndef ENGINE_CUDA_PRODUCT_KEYS_H
#define ENGINE_CUDA_PRODUCT_KEYS_H

#include "engine/cuda/run.h"

template <typename T> void cuda_retrieve(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_retrieve_scratch(const struct plan *plan, const struct plan_step *step);

#endif
