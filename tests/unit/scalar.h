/* scalar: the operations of a plan in double precision, one plain loop each. The loops follow the formulas in
 * engine/plan/operations.c. Tests compare the backends with these results. */
#ifndef TESTS_UNIT_SCALAR_H
#define TESTS_UNIT_SCALAR_H

#include "engine/plan/padder.h"

/* The values of all steps over a batch that is laid out. values[v] is (rows, columns). */
double **scalar_run(const struct plan *plan, const struct batch *batch);
void scalar_free(const struct plan *plan, double **values);

/* The expected `pooled` and `output` of an item. output is (n_rows, output_columns). If item->softmax is set, it
 * contains probabilities. */
void scalar_pooled(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *pooled);
void scalar_output(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *output);

/* The expected `output` of an item if the plan gives an image. */
void scalar_image(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *output);

/* The part of `values` that an OP_GIVE_TENSOR gives to an item. */
const double *scalar_tensor(const struct plan *plan, const struct batch *batch, double **values,
                            const struct plan_step *step, int64_t item);

/* An activation function of one number. */
double scalar_activation(struct plan_activation activation, double x);

/* The softmax of an attention step for an item: (heads, rows, k). For a call, adds the mean over the heads to `weights`
 * (width, rows, k). */
void scalar_attention(const struct plan *plan, const struct batch *batch, double **values, int step, int64_t item,
                      double *weights);

#endif
