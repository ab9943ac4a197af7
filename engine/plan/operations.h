/* operations: a table with one row for each operation. The plan, its passes and --explain read it.
 *
 * Letters in the formulas, and in the kernels of engine/cpu and engine/cuda:
 *     b  an item of the batch        r  a row of a matrix                   p  a row's position in its item
 *     n  rows of a sequence          k  rows that a sequence is projected to, which are the keys of an attention
 *     h  heads                       d  features of a head's query or key   e, d'  features of a head's value
 *     x, z, y  a step's operands and its result                             n_b  rows of item b
 * W, E, T and other capitals are weights. A shape is (rows, columns), row-major. */
#ifndef ENGINE_PLAN_OPERATIONS_H
#define ENGINE_PLAN_OPERATIONS_H

#include "engine/plan/plan.h"

#include <stdio.h>

/* Which rows of x a row of y depends on. plan_narrow (passes.h) reads it when it reduces the last steps to the
 * requested rows. */
enum row_dependence {
    ROWS_UNSAID, /* the operation's row of the table is incomplete */
    ROWS_ALONE, /* a row of y depends on the same row of x, and on rows at most `reach` away from it. Other rows of x do
                   not change a bit of the row of y */
    ROWS_TOGETHER, /* a row of y may depend on any rows of x */
};

struct plan_operation {
    const char *name;    /* such as "linear" */
    const char *formula; /* one line of mathematics */
    enum row_dependence rows;
    int64_t (*reach)(const struct plan_step *step); /* with ROWS_ALONE: the distance of the furthest row that is read.
                                                       NULL if only the same row is read */
    bool position; /* with ROWS_ALONE: a row of y also depends on the position of the row in its item. plan_select_rows
                      (passes.h) reads it, because it moves steps to an axis where each row has position 0 */
    /* The number of floats that the step keeps in the slot of a sequence whose rows come in several batches (states.h).
     * NULL with ROWS_ALONE if the step keeps nothing. NULL with ROWS_TOGETHER if the step needs all rows at once. */
    int64_t (*state)(const struct plan *plan, const struct plan_step *step);
    bool in_place;      /* y may be placed in the memory of x, if no later step reads x */
    bool adds_residual; /* whether the operation can add a residual z, as its formula shows */

    /* Floating point operations for one item of `rows` rows. A multiplication and an addition count as two. */
    int64_t (*flops)(const struct plan *plan, const struct plan_step *step, int64_t rows);

    /* Prints the parameters of the step for --explain. print_nothing if they need not be shown. */
    void (*print)(const struct plan *plan, const struct plan_step *step, FILE *out);
};

extern const struct plan_operation plan_operations[]; /* (OP_COUNT). The length is not given here, so that operations.c
                                                         can check that the table is complete */

/* The first member that the operation's row of the table lacks, such as "formula". NULL if the row is complete. */
const char *operation_lack(enum operation operation);

#endif
