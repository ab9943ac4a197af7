/* counters: the numbers that the shim counts for tests (tests/cuda/counts.h). */
#ifndef TESTS_CUDA_SHIM_COUNTERS_H
#define TESTS_CUDA_SHIM_COUNTERS_H

enum counter {
    LAUNCHES,
    GRAPH_LAUNCHES,
    INSTANTIATED,
    DESTROYED,
    PAGEABLE_COPIES,
    HEURISTICS,
    SLOW_PRODUCTS,
    SEVERAL_PRODUCTS, /* calls of cublasLtMatmul for several products */
    GELU_PRODUCTS,    /* calls for a product with GELU */
    MEASUREMENTS,
    WAITS,      /* for events and streams, excluding queries */
    IDLE_WAITS, /* waits after which the device had no work left */
    COUNTERS
};

#endif
