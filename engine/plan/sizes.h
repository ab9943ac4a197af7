/* sizes: numbers of rows, or steps between elements, that depend on an item: n + 1, (h / 16) * (w / 16).
 *
 * A size is a polynomial with integer coefficients. Its factors are the free sizes of the inputs, and quotients and
 * remainders of other sizes. A plan numbers its sizes, and equal polynomials have one number. So two sizes are known to
 * be equal if they have the same number.
 *
 * The functions that make a size return its number. They return PLAN_NONE after a failure. The builder
 * records the failure. */
#ifndef ENGINE_PLAN_SIZES_H
#define ENGINE_PLAN_SIZES_H

#include "engine/plan/builder.h"

int plan_size_constant(struct plan_builder *builder, int64_t value);

/* The size of an input's dimension. The batch is not counted: dimension 0 is the first one of an item. With the input
 * PLAN_NONE it is the batch itself, for shapes as the library sees them. Its value for one item is 1. */
int plan_size_free(struct plan_builder *builder, int input, int dimension, int64_t least, int64_t most);

int plan_size_add(struct plan_builder *builder, int a, int b);
int plan_size_subtract(struct plan_builder *builder, int a, int b);
int plan_size_multiply(struct plan_builder *builder, int a, int b);
int plan_size_divide(struct plan_builder *builder, int a, int b);    /* rounded down */
int plan_size_remainder(struct plan_builder *builder, int a, int b); /* of the same sign as b, as in Python */

/* Whether a is a multiple of b in every item, and if so, the quotient. */
bool plan_size_divides(struct plan_builder *builder, int a, int b, int *quotient);

#endif
