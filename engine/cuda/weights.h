/* weights: the weights of a plan in device memory. A weight is stored as elements of the dtype, as floats, or as both,
 * depending on the steps that read it. */
#ifndef ENGINE_CUDA_WEIGHTS_H
#define ENGINE_CUDA_WEIGHTS_H

#include "engine/cuda/run.h"

struct device_weights {
    void **elements; /* by weight. With 16-bit elements, NULL if no step reads the weight as elements */
    float **floats; /* by weight. With 16-bit elements, NULL if no step reads it as floats. If elements are floats, both
                       arrays point to the same memory */
    int count;
    size_t bytes;
};

/* Uploads the weights of the plan. If the dtype is f16, a finite weight that would become infinite is an error. The
 * caller must call weights_free_device, even after failure.
 */
int weights_to_device(struct device_weights *weights, const struct plan *plan, enum dtype dtype, cudaStream_t stream,
                      struct error *error);
void weights_free_device(struct device_weights *weights);

#endif
