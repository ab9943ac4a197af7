/* The CPU's kernels: one for each operation of the plan, over a laid out batch. */
#ifndef ENGINE_CPU_OPERATIONS_H
#define ENGINE_CPU_OPERATIONS_H

#include "engine/cpu/products.h"
#include "engine/cpu/vector.h"
#include "engine/plan/padder.h"

#include <stdatomic.h>

/* What a kernel sees while a step runs. */
struct cpu_run {
    const struct plan *plan;
    const struct batch *batch;
    const struct products *products;
    struct product_weight *const *packed;      /* by weight: those of linear steps; NULL: it is plan->weights' */
    struct product_weight *const *projections; /* by weight, in bf16: those of projections along the sequence */
    const struct vector_functions *vector;
    char *arena;
    const enum element *elements; /* by value: what stands in its place in the arena; a kernel that does not look at it
                                     gets floats */
    int threads;
    float *scratch;         /* `threads` pieces, one each */
    int64_t scratch_floats; /* of a piece */
    float *shared;          /* one, for all threads together */
    atomic_bool *failed;    /* a product did: the batch's results are undefined */
};

typedef void cpu_operation(const struct cpu_run *run, const struct plan_step *step);

extern cpu_operation *const cpu_operations[OP_COUNT];

/* Whether the step computes the item. */
bool cpu_selects(const struct cpu_run *run, const struct plan_step *step, int64_t item);

/* Whether it computes an item that has rows in [first, first + rows) of x. */
bool cpu_selects_rows(const struct cpu_run *run, const struct plan_step *step, int64_t first, int64_t rows);

/* The item's buffer for the softmax of this attention, as model_output_shape has it; NULL: it does not want it. */
float *cpu_wanted_attention(const struct engine_item *item, const struct plan_step *step);

/* What the item's mask adds to the scores of k keys, from position `first` on; of the masks for the heads `which`. */
struct vector_mask cpu_attention_mask(const struct engine_item *item, const struct plan_step *step, int64_t k,
                                      int64_t which, int64_t first);

/* Floats that the step needs for each thread, and for all threads together. */
int64_t cpu_thread_scratch(const struct products *products, const struct plan *plan, const struct plan_step *step);
int64_t cpu_shared_scratch(const struct plan *plan, const struct plan_step *step);

#endif
