/* operation_bench: a plan of a few operations with random weights, on a backend. Random batches run through it, and the
 * results are compared with those of scalar.h. One bench at a time, on one thread. Any error fails the test. */
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
    struct plan *plan; /* set by bench_place, as are `copies`, `model` and `batch` */
    float **copies;    /* by weight: its floats, for the reference */
    struct backend_model *model;
    struct batch batch;
    struct error error;
};

/* Memory for the results of an item. */
struct bench_results {
    float *hidden, *pooled, *output;
    int32_t *rows;
    struct engine_extra attention; /* attention.0, with room for 6 heads and k 130 */
};

extern struct engine_options bench_options; /* for opening the backend; by default the CPU in float32 */
extern double bench_tolerance;              /* largest error, as a part of the largest value of an item's output */

/* Opens the backend and begins a plan over weights of these shapes. If the processor lacks the kernels of
 * bench_options, the test is skipped. bench_end or bench_run is owed. */
struct plan_builder *bench_begin(struct bench *bench, const struct shape *shapes, size_t count);

/* Finishes the plan and places it on the backend. */
void bench_place(struct bench *bench);

/* Makes a random item for the plan, with inputs and requested results. bench_free_item is owed. */
void bench_random_item(const struct plan *plan, struct engine_item *item, struct bench_results *results);
void bench_free_item(struct engine_item *item, struct bench_results *results);

/* Runs the items as one batch. */
void bench_compute(struct bench *bench, const struct engine_item *items, int64_t count);

void bench_end(struct bench *bench);

/* The use of the operation that no bench_run of this process has compared with the reference: "runs", or, if its row in
 * the CPU's table allows bf16, "reads bf16 in" or "writes bf16 in". NULL: all uses were compared. */
const char *bench_untried(enum operation operation);

/* Whether the backend of bench_options has a kernel for the operation. */
bool bench_has_kernel(enum operation operation);

/* Places the plan, and compares random batches with the reference. Also compares items alone with the same items in the
 * batch: the bits must be equal if the backend is batch invariant. Ends the bench. */
void bench_run(struct bench *bench);

#endif
