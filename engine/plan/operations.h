/* operations: a table with one row for each operation. The plan, its passes and --explain read it.
 *
 * Letters in the formulas, and in the kernels of engine/cpu and engine/cuda:
 *     b  an item of the batch        r  a row of a matrix                   p  a row's position in its item
 *     n  rows of a sequence          k  rows that a sequence is projected to, which are the keys of an attention
 *     h  heads                       d  features of a head's query or key   e  features of a head's value
 *     x, z, y  a step's operands and its result                             n_b  rows of item b
 * W, E, T and other capitals are weights. A shape is (rows, columns), row-major. */
#ifndef ENGINE_PLAN_OPERATIONS_H
#define ENGINE_PLAN_OPERATIONS_H

#include "engine/plan/plan.h"

#include <stdio.h>

/* The rows of x that a row of y depends on. The pass that narrows a plan to the requested rows reads it. */
enum row_dependence {
    ROWS_UNSAID,   /* the table's row is incomplete */
    ROWS_ALONE,    /* the same row, and rows at most `reach` away; other rows do not change a bit of y */
    ROWS_TOGETHER, /* any rows */
};

struct plan_operation {
    const char *name;    /* "linear" */
    const char *formula; /* one line of mathematics */
    enum row_dependence rows;
    int64_t (*reach)(const struct plan_step *step); /* of ROWS_ALONE; NULL: no neighbours */
    bool in_place;                                  /* y may use the memory of x if no later step reads x */
    bool adds_residual;                             /* the last term of the formula is z */

    /* For one item of `rows` rows. A multiplication and an addition are two. */
    int64_t (*flops)(const struct plan *plan, const struct plan_step *step, int64_t rows);

    /* The step's parameters, for --explain; print_nothing: none worth a word. */
    void (*print)(const struct plan *plan, const struct plan_step *step, FILE *out);
};

extern const struct plan_operation plan_operations[OP_COUNT];

/* The first thing that the operation's row lacks, such as "formula"; NULL: the row is complete. */
const char *operation_lack(enum operation operation);

#endif
