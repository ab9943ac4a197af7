/* roads: a choice between two ways of computing a step, by cuBLASLt or by a kernel of the engine. The choice is made
 * once for each step, while the model is loaded. It holds for all batches. So the order of additions does not depend on
 * the batch because of it.
 *
 *     step                                  ROAD_LIBRARY                          ROAD_KERNEL
 *     projection of whole sequences         a product with a distance for each    project, project_tensor
 *                                           sequence (project.cu)
 *     product with bias and GELU in bf16    cuBLASLt computes all of it           a kernel computes bias and GELU after
 *                                                                                 the product */
#ifndef ENGINE_CUDA_ROADS_H
#define ENGINE_CUDA_ROADS_H

#include "engine/cuda/run.h"

#include <functional>

/* Launches the current step on the stream of the given run, which is not choosing. */
typedef std::function<void(struct cuda_run *, enum road)> launch_road;

static inline enum road road_of(const struct cuda_run *run)
{
    return run->launches[run->step - run->plan->steps].road;
}

/* Chooses the road of the current step if it is open: the road of an earlier step of the same sizes, or else the faster
 * one. If time is left for measuring (run->tuning_milliseconds), both roads are timed. Otherwise, and if no road is
 * clearly faster, it is ROAD_LIBRARY. run->choosing must be set. If cuBLASLt has no algorithm, pass `possible` as
 * false. */
void road_choose(struct cuda_run *run, bool possible, const launch_road &launch);

#endif
