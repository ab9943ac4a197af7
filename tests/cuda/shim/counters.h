/* counters: the events that the shim counts for tests (tests/cuda/counts.h). */
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
    SEVERAL_PRODUCTS, /* calls of cublasLtMatmul with several products */
    GROUPED_PRODUCTS, /* calls of cublasGemmGroupedBatchedEx */
    GELU_PRODUCTS,    /* calls of cublasLtMatmul with GELU */
    MEASUREMENTS,
    WAITS,      /* waits for events and streams. Queries do not count */
    IDLE_WAITS, /* waits after which the device had no work left */
    COUNTERS
};

#endif
