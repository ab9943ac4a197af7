/* The CPU's kernels: one for each operation of the plan, over a laid out batch. */
#ifndef ENGINE_CPU_OPERATIONS_H
#define ENGINE_CPU_OPERATIONS_H

#include "engine/cpu/products.h"
#include "engine/cpu/vector.h"
#include "engine/padder.h"

/* What a kernel sees while a step runs. */
struct cpu_run {
    const struct plan *plan;
    const struct batch *batch;
    const struct products *products;
    const struct vector_functions *vector;
    char *arena;
    int threads;
    float *scratch;         /* `threads` pieces, one each */
    int64_t scratch_floats; /* of a piece */
    float *shared;          /* one, for all threads together */
};

typedef void cpu_operation(const struct cpu_run *run, const struct plan_step *step);

extern cpu_operation *const cpu_operations[OP_COUNT];

/* Floats that the step needs for each thread, and for all threads together. */
int64_t cpu_thread_scratch(const struct plan *plan, const struct plan_step *step);
int64_t cpu_shared_scratch(const struct plan *plan, const struct plan_step *step);

#endif
