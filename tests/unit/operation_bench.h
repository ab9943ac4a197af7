/* operation_bench: a plan of few operations with random weights, run by a backend over random batches and held against
 * scalar.h. One after the other, one thread; what goes wrong fails the test. */
#ifndef TESTS_UNIT_OPERATION_BENCH_H
#define TESTS_UNIT_OPERATION_BENCH_H

#include "engine/backend.h"
#include "tests/unit/tensors.h"

struct bench {
    struct backend *backend;
    struct weights *weights;
    void *file;
    struct plan_builder builder;
    struct plan *plan;
    struct error error;
};

extern struct engine_options bench_options; /* what the backend is opened with: the CPU in float32, if nothing is set */
extern double bench_tolerance;              /* of the largest value in an item's output */

/* Opens the backend and begins a plan over weights of these shapes. Where the processor lacks the kernels that
 * bench_options name, the test is skipped. bench_run or bench_end is owed. */
struct plan_builder *bench_begin(struct bench *bench, const struct shape *shapes, size_t count);

/* Finishes the plan, compares three random batches with the reference, and each item with itself alone: the same bits
 * where the backend promises them. Closes all. */
void bench_run(struct bench *bench);

void bench_end(struct bench *bench); /* closes all, and runs nothing */

#endif
