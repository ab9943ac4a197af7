/* sizes: numbers of rows, or strides between elements, that depend on an item. Examples: n + 1, (h / 16) * (w / 16).
 *
 * A size is a polynomial with integer coefficients. Its variables are the free sizes of the inputs, and quotients and
 * remainders of other sizes. A free size is the length of one dimension of an input, which differs between items. A
 * plan numbers its sizes, and gives equal polynomials the same number. So two sizes with the same number are equal for
 * every item.
 *
 * The functions that make a size return its number. They return PLAN_NONE after a failure, which the builder records.
 */
#ifndef ENGINE_PLAN_SIZES_H
#define ENGINE_PLAN_SIZES_H

#include "engine/plan/builder.h"

int plan_size_constant(struct plan_builder *builder, int64_t value);

/* The size of an input's dimension. The batch is not counted: dimension 0 is the first one of an item. If `input` is
 * PLAN_NONE, the size is the batch dimension, which the shapes of the Python library include. For one item the batch
 * dimension is 1. */
int plan_size_free(struct plan_builder *builder, int input, int dimension, int64_t least, int64_t most);

/* Names a free size in messages and in --explain. Has no effect on other sizes. */
void plan_name_size(struct plan_builder *builder, int size, const char *name);

int plan_size_add(struct plan_builder *builder, int a, int b);
int plan_size_subtract(struct plan_builder *builder, int a, int b);
int plan_size_multiply(struct plan_builder *builder, int a, int b);
int plan_size_divide(struct plan_builder *builder, int a, int b);    /* rounded down */
int plan_size_remainder(struct plan_builder *builder, int a, int b); /* the remainder has the sign of b, as in Python */

/* Whether the terms of the sizes show that a is a multiple of b in every item. If so, sets *quotient to the size a / b.
 */
bool plan_size_divides(struct plan_builder *builder, int a, int b, int *quotient);

#endif
