/* run: the data that a kernel reads while a step runs, functions that find the step's matrices, and the struct for one
 * row of the table of operations. A kernel is the function of this backend that computes one operation.
 * engine/plan/plan.h explains the words plan, step, value, axis, call and slot. An item is one entry of a batch,
 * usually one sequence (engine/plan/item.h).
 *
 * Formulas in this folder use the letters that engine/plan/operations.h lists. A shape is (rows, columns), row-major. A
 * stride is the distance between two rows, in elements. Matrix products use the letters of BLAS instead: c (m, n) = a
 * (m, k) b (k, n).
 *
 * A kernel divides its step into tasks for the threads. Each task writes its own rows or columns, and computes them in
 * one fixed order. So the number of threads does not change a bit of a result. If products.batch_invariant is true, the
 * other items of the batch do not change a bit, either. */
#ifndef ENGINE_CPU_RUN_H
#define ENGINE_CPU_RUN_H

#include "engine/cpu/products.h"
#include "engine/cpu/vector.h"
#include "engine/plan/arithmetic.h"
#include "engine/plan/padder.h"

#include <omp.h>
#include <stdatomic.h>

struct cpu_run {
    const struct plan *plan;
    const struct batch *batch;
    const struct products *products;
    /* By weight: its copy that is packed for products_linear_tile. NULL if kernels read the floats in plan->weights. */
    struct product_weight *const *packed;
    /* By weight: its copy that is packed for projections in bf16. NULL if kernels read the floats in plan->weights. */
    struct product_weight *const *projections;
    const struct vector_functions *vector;
    char *arena;
    const enum element *elements; /* by value: the type of its elements in the arena, usually ELEMENT_F32 */
    float *slots;                 /* (plan->n_slots, plan->state_floats): the memory of all slots */
    int threads;
    const struct plan_step *step; /* the step that runs */
    float *scratch; /* (threads, scratch_floats). NULL if the operation's row in operations.c has no thread scratch */
    int64_t scratch_floats; /* number of floats of scratch for each thread */
    float *shared;          /* scratch that all threads share. NULL if the operation's row has no shared scratch */
    atomic_bool *failed;    /* set when a product fails. The results of the batch are undefined after a failure */
};

typedef void cpu_kernel(const struct cpu_run *run, const struct plan_step *step);

/* The number of floats of scratch that a step needs for the largest batch. The function may read only the members plan
 * and products of `run`. */
typedef int64_t cpu_scratch(const struct cpu_run *run, const struct plan_step *step);
cpu_scratch cpu_no_scratch;

/* How a kernel reads step->weight. Kernels always read second_weight like WEIGHT_TILES. */
enum weight_use {
    WEIGHT_FLOATS,     /* the floats in plan->weights */
    WEIGHT_TILES,      /* packed for products_linear_tile, by products_take_weight */
    WEIGHT_PROJECTION, /* packed by products_take_projection if products run in bf16. Otherwise like WEIGHT_FLOATS */
};

/* One row of the table in operations.c. If a row lacks one of the functions, the operation is treated as if it had no
 * kernel: has_operation (engine/backend.h) returns false. */
struct cpu_operation {
    cpu_kernel *run;
    cpu_scratch *thread_scratch; /* number of floats for each thread. cpu_no_scratch if the kernel needs none */
    cpu_scratch *shared_scratch; /* number of floats that all threads share. cpu_no_scratch if the kernel needs none */
    enum weight_use weight;
    bool writes_bf16; /* the kernel can write y as bf16 */
    bool reads_bf16;  /* the kernel can read x, keys and values as bf16. The kernel always reads z as floats */
};

/* cpu_selects tells whether the step computes the sequence. cpu_selects_rows tells whether it computes any sequence
 * with rows in [first, first + rows) of x. plan_step.only selects the sequences of a step by their numbers of rows. */
bool cpu_selects(const struct cpu_run *run, const struct plan_step *step, int64_t sequence);
bool cpu_selects_rows(const struct cpu_run *run, const struct plan_step *step, int64_t first, int64_t rows);

/* Ends the process, because a kernel uses something that its row in operations.c does not declare. Prints the operation
 * and `use`. */
_Noreturn void cpu_refuse_use(const struct cpu_run *run, const char *use);

/* ---- A step's matrices ---- */

/* A pointer to element `first` of the value. run->elements states the type of the elements. */
static inline void *elements_of(const struct cpu_run *run, int value, int64_t first)
{
    return run->arena + run->plan->values[value].offset + first * element_bytes(run->elements[value]);
}

/* Pointer to a value of floats. NULL for PLAN_NONE. */
static inline float *floats_of(const struct cpu_run *run, int value)
{
    if (value == PLAN_NONE)
        return NULL;
    if (run->elements[value] != ELEMENT_F32)
        cpu_refuse_use(run, "it reads a bf16 value as floats");
    return (float *)(run->arena + run->plan->values[value].offset);
}

/* Pointer to a value of ids, or to a mask. NULL for PLAN_NONE. */
static inline const int32_t *ids_of(const struct cpu_run *run, int value)
{
    return value == PLAN_NONE ? NULL : (const int32_t *)(run->arena + run->plan->values[value].offset);
}

static inline const float *weight_of(const struct cpu_run *run, int weight)
{
    if (weight == PLAN_NONE)
        return NULL;
    const struct plan_weight *read = &run->plan->weights[weight];
    if (!read->data && read->rows * read->columns > 0)
        cpu_refuse_use(run, "it reads a weight as floats");
    return read->data;
}

static inline const struct layout *layout_of(const struct cpu_run *run, int value)
{
    return &run->batch->layouts[run->plan->values[value].axis];
}

static inline int64_t columns_of(const struct cpu_run *run, int value)
{
    return run->plan->values[value].columns;
}

/* The number of rows of all items together. */
static inline int64_t rows_of(const struct cpu_run *run, int value)
{
    return layout_of(run, value)->item_starts[run->batch->n_items];
}

/* The number of rows of each sequence. It must be the same for all items. */
static inline int64_t rows_per_sequence_of(const struct plan *plan, int value)
{
    return plan_constant_rows(plan, plan->values[value].axis);
}

/* The number of sequences in an item with LAYOUT_CALL. 1 for other layouts. */
static inline int64_t width_of(const struct cpu_run *run, int value, int64_t item)
{
    return padder_value_width(run->plan, &run->batch->items[item], value);
}

/* ---- Sequences in parts ---- */

/* The memory of the running step in the slot of the sequence. There, the step keeps what later rows of the sequence
 * need. NULL if the step keeps nothing, or if the item is a whole sequence. In a plan with slots each item is one
 * sequence, so `sequence` is also the number of the item. */
static inline float *state_of(const struct cpu_run *run, int64_t sequence)
{
    if (run->plan->n_slots == 0 || run->step->state == PLAN_NONE || run->batch->items[sequence].slot == 0)
        return NULL;
    return run->slots + (run->batch->items[sequence].slot - 1) * run->plan->state_floats + run->step->state;
}

/* A row's position in its whole sequence, counting the rows of earlier batches. */
static inline int64_t whole_position_of(const struct cpu_run *run, const struct layout *layout, int64_t sequence,
                                        int64_t row)
{
    return padder_earlier_rows(run->plan, run->batch, sequence) + padder_position(layout, sequence, row);
}

/* ---- Threads ---- */

/* The number of threads for a number of tasks. It is always 1 or run->threads. A parallel region with one thread does
 * not change libgomp's other threads. A change between two larger numbers of threads would make libgomp end threads or
 * create new threads. */
static inline int threads_for(const struct cpu_run *run, int64_t tasks)
{
    return tasks > 1 ? run->threads : 1;
}

/* The calling thread's scratch. */
static inline float *scratch_of(const struct cpu_run *run)
{
    if (!run->scratch)
        cpu_refuse_use(run, "it uses the scratch of a thread");
    return run->scratch + omp_get_thread_num() * run->scratch_floats;
}

/* The scratch that all threads share. */
static inline float *shared_scratch_of(const struct cpu_run *run)
{
    if (!run->shared)
        cpu_refuse_use(run, "it uses shared scratch");
    return run->shared;
}

#endif
