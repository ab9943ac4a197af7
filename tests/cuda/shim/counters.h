/* counters: what the shim counts, and tests ask it for (tests/cuda/counts.h). */
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
    MEASUREMENTS,
    WAITS,      /* for events and streams, but by asking */
    IDLE_WAITS, /* … after which the device had nothing to do */
    COUNTERS
};

#endif
