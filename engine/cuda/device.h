/* device: one device. Its models share it. */
#ifndef ENGINE_CUDA_DEVICE_H
#define ENGINE_CUDA_DEVICE_H

#include "engine/cuda/products.h"

#include <pthread.h>

struct backend {
    int device;
    bool failed; /* a call of the runtime failed, so closing ends with a reset. Several threads set it: use atomics */
    cudaStream_t up, compute, down; /* copies to the device, kernels, copies to the host; they run side by side */
    cudaStream_t loading;           /* uploads of weights. No batch waits for it */
    cudaStream_t capturing;         /* graphs are captured on it; nothing runs on it */
    pthread_mutex_t submitting;     /* held while a batch's kernels are launched, one batch after the other */
    struct cuda_products *products; /* guarded by `submitting` */
    int64_t tuning_ms;              /* for each model */
    enum dtype dtype;
    int processors;
    size_t shared_bytes;  /* shared memory that a block may ask for */
    size_t shared_by_two; /* the same if two blocks must fit on a multiprocessor */
    char description[320];
};

#endif
