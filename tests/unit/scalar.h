/* scalar: a plan's operations in double precision, one plain loop each, written from the formulas in
 * engine/plan/operations.c. The backends are compared with it. */
#ifndef TESTS_UNIT_SCALAR_H
#define TESTS_UNIT_SCALAR_H

#include "engine/plan/padder.h"

/* The values of all steps over a laid out batch: values[v] is (rows, columns). */
double **scalar_run(const struct plan *plan, const struct batch *batch);
void scalar_free(const struct plan *plan, double **values);

/* The expected `pooled` and `output` of an item. output is (n_rows, output_columns), as probabilities if item->softmax.
 */
void scalar_pooled(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *pooled);
void scalar_output(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *output);

/* The expected `output` of an item if the plan gives an image. */
void scalar_image(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *output);

/* What an OP_GIVE_TENSOR gives an item: a part of values. */
const double *scalar_tensor(const struct plan *plan, const struct batch *batch, double **values,
                            const struct plan_step *step, int64_t item);

/* An activation of one number. */
double scalar_activation(struct plan_activation activation, double x);

/* The softmax of an attention step for an item, (heads, rows, k); of a call, added to `weights`, (width, rows, k). */
void scalar_attention(const struct plan *plan, const struct batch *batch, double **values, int step, int64_t item,
                      double *weights);

#endif
