/* weights: a plan's weights on the device, as elements of the dtype, as floats, or as both where steps differ. */
#ifndef ENGINE_CUDA_WEIGHTS_H
#define ENGINE_CUDA_WEIGHTS_H

#include "engine/cuda/run.h"

struct device_weights {
    void **elements; /* by weight; NULL: nobody reads it so */
    float **floats;  /* where elements are floats the same as these */
    int count;
    size_t bytes;
};

/* Uploads them. f16 refuses a weight that it has no finite number for. Whether it succeeds or not, weights_free_device
 * is owed. */
int weights_to_device(struct device_weights *weights, const struct plan *plan, enum cuda_dtype dtype,
                      cudaStream_t stream, struct error *error);
void weights_free_device(struct device_weights *weights);

#endif
