/* feed_forward: multiplies rows by one weight, and the result by a second weight. The result of the first product is in
 * scratch memory. */
#ifndef ENGINE_CUDA_FEED_FORWARD_H
#define ENGINE_CUDA_FEED_FORWARD_H

#include "engine/cuda/run.h"

template <typename T> void cuda_feed_forward(struct cuda_run *run, const struct plan_step *step);
int64_t cuda_feed_forward_scratch(const struct plan *plan, const struct plan_step *step);

#endif
