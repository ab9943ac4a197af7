/* device: a CUDA device, with the streams, memory and locks that all models on it share. */
#ifndef ENGINE_CUDA_DEVICE_H
#define ENGINE_CUDA_DEVICE_H

#include "engine/cuda/products.h"

#include <pthread.h>

struct backend {
    int device;
    /* A call of the CUDA runtime failed, so closing the device ends with a reset. Several threads set it: use
     * atomics. */
    bool failed;
    /* Streams for copies to the device, for kernels, and for copies to the host. They run concurrently. */
    cudaStream_t up, compute, down;
    cudaStream_t loading;   /* stream for uploads of weights. No batch waits for it */
    cudaStream_t capturing; /* stream for capturing graphs. Nothing runs on it */
    /* Held while the kernels of a batch are launched, so that batches are launched one after another. */
    pthread_mutex_t submitting;
    struct cuda_products *products; /* guarded by `submitting` */
    int64_t tuning_ms;              /* time limit for measuring algorithms of products, for each model */
    enum dtype dtype;
    bool split; /* products of floats run on tensor cores (split.h) */
    int processors;
    size_t shared_bytes;  /* maximum shared memory of a block */
    size_t shared_by_two; /* maximum shared memory of a block if two blocks must fit on a multiprocessor */
    char description[320];
};

#endif
