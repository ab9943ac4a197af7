/* operation_bench: a plan of few operations with random weights, placed on a backend; and random batches of it, held
 * against scalar.h. One after the other, one thread; what goes wrong fails the test. */
#ifndef TESTS_UNIT_OPERATION_BENCH_H
#define TESTS_UNIT_OPERATION_BENCH_H

#include "engine/backend.h"
#include "engine/plan/builder.h"
#include "tests/unit/tensors.h"

#define BENCH_ITEMS 6 /* of a batch at most, and their rows together */
#define BENCH_ROWS 512

struct bench {
    const struct backend_functions *functions;
    struct backend *backend;
    struct weights *weights;
    void *file;
    struct plan_builder builder;
    struct plan *plan; /* bench_place, like the next */
    float **copies;    /* by weight: its floats, for the reference */
    struct backend_model *model;
    struct batch batch;
    struct error error;
};

/* What an item's results are written into. */
struct bench_results {
    float *hidden, *pooled, *output;
    int32_t *rows;
    struct engine_extra attention; /* attention.0, with room for 6 heads and k 130 */
};

extern struct engine_options bench_options; /* what the backend is opened with: the CPU in float32, if nothing is set */
extern double bench_tolerance;              /* of the largest value in an item's output */

/* Opens the backend and begins a plan over weights of these shapes. Where the processor lacks the kernels that
 * bench_options name, the test is skipped. bench_end or bench_run is owed. */
struct plan_builder *bench_begin(struct bench *bench, const struct shape *shapes, size_t count);

/* Finishes the plan and places it on the backend. */
void bench_place(struct bench *bench);

/* A random item of the plan's, with what it wants and what its sequences hold; bench_free_item is owed. */
void bench_random_item(const struct plan *plan, struct engine_item *item, struct bench_results *results);
void bench_free_item(struct engine_item *item, struct bench_results *results);

/* The items as one batch. */
void bench_compute(struct bench *bench, const struct engine_item *items, int64_t count);

void bench_end(struct bench *bench);

/* What bench_run has not compared with the reference in this process: "runs", or where the operation's row on the CPU
 * says that it can, "reads bf16 in" or "writes bf16 in". NULL: all of it was. */
const char *bench_untried(enum operation operation);

/* Whether the backend that bench_options name has a kernel for it. */
bool bench_has_kernel(enum operation operation);

/* Places the plan, compares three random batches with the reference, and each item with itself alone: the same bits
 * where the backend promises them. Ends the bench. */
void bench_run(struct bench *bench);

#endif
