/* device: a device as its models share it. */
#ifndef ENGINE_CUDA_DEVICE_H
#define ENGINE_CUDA_DEVICE_H

#include "engine/cuda/products.h"

#include <pthread.h>

struct backend {
    int device;
    bool failed; /* a call of the runtime did: closing ends with a reset. Threads set it side by side */
    cudaStream_t up, compute, down; /* copies to the device, kernels, copies to the host: side by side */
    cudaStream_t loading;           /* weights: no batch waits behind them */
    cudaStream_t capturing;         /* nothing runs on it */
    pthread_mutex_t submitting;     /* a batch's kernels are launched without another's between them */
    struct cuda_products *products; /* of whoever is submitting */
    int64_t tuning_ms;              /* for each model */
    enum cuda_dtype dtype;
    int processors;
    size_t shared_bytes;  /* that a block may ask for */
    size_t shared_by_two; /* … where two blocks are to fit on a multiprocessor */
    char description[320];
};

#endif
