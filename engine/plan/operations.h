/* operations: one row for each operation, with what the plan, its passes and --explain know of it.
 *
 * In the formulas r is a row, b an item, n_b its rows and p the position of r in its item. W, E, T and other capitals
 * are weights. A shape is (rows, columns). */
#ifndef ENGINE_PLAN_OPERATIONS_H
#define ENGINE_PLAN_OPERATIONS_H

#include "engine/plan/plan.h"

#include <stdio.h>

/* Which rows of x a row of y comes from. The pass that narrows a plan to the wanted rows asks for it. */
enum row_dependence {
    ROWS_UNSAID, /* of no operation: the row of the table lacks it */
    ROWS_ALONE,  /* its own, or those up to `reach` away; the same bits whichever other rows are there */
    ROWS_TOGETHER,
};

struct plan_operation {
    const char *name;    /* "linear" */
    const char *formula; /* one line of mathematics */
    enum row_dependence rows;
    int64_t (*reach)(const struct plan_step *step); /* of ROWS_ALONE; NULL: a row reads its own alone */
    bool in_place;                                  /* y may lie where x does, when nothing reads x later */
    bool adds_residual;                             /* z is added to what the formula has before it */

    /* For one item of `rows` rows. A multiplication and an addition are two. */
    int64_t (*flops)(const struct plan *plan, const struct plan_step *step, int64_t rows);

    /* The step's parameters, for --explain; print_nothing: none worth a word. */
    void (*print)(const struct plan *plan, const struct plan_step *step, FILE *out);
};

extern const struct plan_operation plan_operations[OP_COUNT];

/* The first thing that the operation's row lacks, such as "formula"; NULL: the row is complete. */
const char *operation_lack(enum operation operation);

#endif
