/* product_method: chooses whether cuBLAS or a kernel of the engine computes a step. The choice is made once for each
 * step, while the model is loaded. It applies to all batches.
 *
 *     step                                  PRODUCT_BY_LIBRARY                    PRODUCT_BY_KERNEL
 *     projection of full sequences          one launch with a product for each    project, project_tensor
 *                                           sequence (project_full.cu)
 *     projection of sequences of several    one launch with products of several   project, project_tensor
 *     lengths, of large batches             sizes (project_grouped.cu)
 *     product with bias and GELU in bf16    cuBLASLt computes all of it           a kernel computes bias and GELU after
 *                                                                                 the product */
#ifndef ENGINE_CUDA_PRODUCT_METHOD_H
#define ENGINE_CUDA_PRODUCT_METHOD_H

#include "engine/cuda/run.h"

#include <functional>

/* Launches the current step on the stream of the given run. run->choosing is false. Returns false if cuBLAS does not
 * support the method. */
typedef std::function<bool(struct cuda_run *, enum product_method)> launch_method;

/* A pointer to a member of cuda_launch: `method` or `method_by_length`. */
typedef enum product_method cuda_launch::*chosen_method;

static inline enum product_method product_method_of(const struct cuda_run *run)
{
    return run->launches[run->step - run->plan->steps].method;
}

/* Chooses the method of the current step if it is PRODUCT_UNDECIDED. run->choosing must be set. `possible` tells
 * whether cuBLAS can compute the step. The rules, in this order:
 *
 *     - If `possible` is false, the method is PRODUCT_BY_KERNEL.
 *     - If an earlier step has the same sizes, the method is that of the earlier step.
 *     - If time is left for measuring (run->tuning_milliseconds), the clearly faster method is chosen.
 *     - Otherwise the method is `usual`. */
void product_method_choose(struct cuda_run *run, chosen_method chosen, bool possible, enum product_method usual,
                           const launch_method &launch);

#endif
