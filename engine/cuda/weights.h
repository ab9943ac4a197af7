/* weights: a plan's weights on the device, as elements of the dtype, as floats, or as both if steps read both. */
#ifndef ENGINE_CUDA_WEIGHTS_H
#define ENGINE_CUDA_WEIGHTS_H

#include "engine/cuda/run.h"

struct device_weights {
    void **elements; /* by weight; NULL: no step reads it as elements */
    float **floats;  /* by weight, likewise. If elements are floats, both are the same memory */
    int count;
    size_t bytes;
};

/* Uploads them. With f16 a finite weight that would become infinite is an error. weights_free_device is owed in any
 * case.
 */
int weights_to_device(struct device_weights *weights, const struct plan *plan, enum dtype dtype, cudaStream_t stream,
                      struct error *error);
void weights_free_device(struct device_weights *weights);

#endif
