/* operation_bench: runs a plan of a few operations with random weights on a backend. The backend computes random
 * batches, and the results are compared with those of scalar.h. Use one bench at a time, on one thread. Any error fails
 * the test. */
#ifndef TESTS_UNIT_OPERATION_BENCH_H
#define TESTS_UNIT_OPERATION_BENCH_H

#include "engine/backend.h"
#include "engine/plan/builder.h"
#include "tests/unit/tensors.h"

#define BENCH_ITEMS 6  /* maximum number of items of a batch */
#define BENCH_ROWS 512 /* maximum number of rows of all items of a batch together */

struct bench {
    const struct backend_functions *functions;
    struct backend *backend;
    struct weights *weights;
    void *file;
    struct plan_builder builder;
    struct plan *plan; /* bench_place sets `plan`, `copies`, `model` and `batch` */
    float **copies;    /* by weight: a copy of its floats for the reference */
    struct backend_model *model;
    struct batch batch;
    struct error error;
};

/* Memory for the results of an item. */
struct bench_results {
    float *hidden, *pooled, *output;
    int32_t *rows;
    struct engine_extra attention; /* the output attention.0, with memory for 6 heads and 130 keys per row */
};

extern struct engine_options bench_options; /* options of the backend, by default the CPU in float32 */
extern double bench_tolerance;              /* maximum error, divided by max(0.3, largest |value| of a result) */

/* Opens the backend, and begins a plan with weights of these shapes. If the processor does not support the kernels of
 * bench_options, the test is skipped. The caller must call bench_end or bench_run. */
struct plan_builder *bench_begin(struct bench *bench, const struct tensor_shape *shapes, size_t count);

/* Finishes the plan and places it on the backend. */
void bench_place(struct bench *bench);

/* Makes a random item for the plan: its inputs, and memory for its results. The caller must call bench_free_item. */
void bench_random_item(const struct plan *plan, struct engine_item *item, struct bench_results *results);
void bench_free_item(struct engine_item *item, struct bench_results *results);

/* Runs the items as one batch. */
void bench_compute(struct bench *bench, const struct engine_item *items, int64_t count);

void bench_end(struct bench *bench);

/* Returns a use of the operation that this process has not compared with the reference. The use is a part of a message,
 * before the words "the operation": "runs", "reads bf16 in" or "writes bf16 in". The two uses with bf16 are only
 * returned if the table of the CPU's operations allows bf16. Returns NULL if all uses were compared. */
const char *bench_untried(enum operation operation);

/* Whether the backend of bench_options has a kernel for the operation. */
bool bench_has_kernel(enum operation operation);

/* Places the plan, and compares random batches with the reference. Also compares items alone with the same items in the
 * batch. If the backend is batch invariant, the bits must be equal. Ends the bench. */
void bench_run(struct bench *bench);

#endif
