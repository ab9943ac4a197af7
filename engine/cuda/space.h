/* space: operations over a space. A space lists which elements a step visits in each item (engine/plan/space.h). */
#ifndef ENGINE_CUDA_SPACE_H
#define ENGINE_CUDA_SPACE_H

#include "engine/cuda/run.h"

extern "C" {
#include "engine/plan/space.h"
}

template <typename T> void cuda_arrange(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_combine(struct cuda_run *run, const struct plan_step *step);
template <typename T> void cuda_select(struct cuda_run *run, const struct plan_step *step);

/* The space of a step, with the sizes from which the device evaluates the space for an item. */
struct device_space {
    struct plan_space space;
    struct space_operands operands;
    const int64_t *sizes; /* (items, n_sizes), in device memory */
    int n_sizes;
};

static inline struct device_space device_space_of(const struct cuda_run *run, const struct plan_step *step)
{
    struct device_space space = {run->plan->spaces[step->space], space_operands_of(step), run->sizes,
                                 run->plan->n_sizes};
    return space;
}

/* The space for an item, not yet simplified. */
static __device__ __forceinline__ struct evaluated_space space_of_item(const struct device_space &space, int64_t item)
{
    return space_evaluate(&space.space, space.operands, space.sizes + item * space.n_sizes);
}

#endif
