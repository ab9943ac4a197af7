/* scalar: the reference for the backends. It computes each operation of a plan in double precision, with plain loops
 * that follow the formulas in engine/plan/operations.c. */
#ifndef TESTS_UNIT_SCALAR_H
#define TESTS_UNIT_SCALAR_H

#include "engine/plan/padder.h"

/* Computes the values of all steps for a batch whose layouts the padder has computed. values[v] is (rows, columns). */
double **scalar_run(const struct plan *plan, const struct batch *batch);
void scalar_free(const struct plan *plan, double **values);

/* Writes the expected `pooled` and `output` of an item. output is (n_rows, output_columns). If item->softmax is set,
 * `output` contains probabilities. */
void scalar_pooled(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *pooled);
void scalar_output(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *output);

/* Writes the expected `output` of an item if the plan's result is an image. */
void scalar_image(const struct plan *plan, const struct batch *batch, double **values, int64_t item, double *output);

/* Returns the part of `values` that the step OP_GIVE_TENSOR copies to an output of the item. */
const double *scalar_tensor(const struct plan *plan, const struct batch *batch, double **values,
                            const struct plan_step *step, int64_t item);

/* Returns the activation function of x. */
double scalar_activation(struct plan_activation activation, double x);

/* Writes the softmax of an attention step for an item to `weights` (heads, rows, k). For a call, adds the mean over the
 * heads to `weights` (width, rows, k). */
void scalar_attention(const struct plan *plan, const struct batch *batch, double **values, int step, int64_t item,
                      double *weights);

#endif
