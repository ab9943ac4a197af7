/* tensor: views of values and weights, as graph.h describes them, and steps that copy a view's elements into a new
 * value. The builder records a failure. After a failure the functions return an arbitrary tensor. */
#ifndef ENGINE_FAMILIES_MODULE_TENSOR_H
#define ENGINE_FAMILIES_MODULE_TENSOR_H

#include "engine/families/module/graph.h"

/* ---- Views, which add no step to the plan ---- */
struct tensor tensor_permute(struct module *module, struct tensor t, const int *order);
struct tensor tensor_unsqueeze(struct module *module, struct tensor t, int dim);
struct tensor tensor_squeeze(struct module *module, struct tensor t, int dim);
/* The `length` elements start, start + step, start + 2 * step … of a dimension. If the dimension is the columns of a
 * product, the function does add a step: a smaller product with a part of the weight. */
struct tensor tensor_slice(struct module *module, struct tensor t, int dim, int start, int length, int64_t step);
/* Repeats dimensions of size 1, and adds leading dimensions, up to the shape `sizes`. The sizes contain the batch. */
struct tensor tensor_expand(struct module *module, struct tensor t, int rank, const int *sizes);

/* ---- Views if the elements are in order in memory, otherwise ordered copies ---- */

/* The sizes contain the batch. One of them may be the constant -1, which is computed from the others. */
struct tensor tensor_reshape(struct module *module, struct tensor t, int rank, const int *sizes);

/* A copy whose elements are in order in memory. */
struct tensor tensor_arranged(struct module *module, struct tensor t);

/* Returns a value with the tensor's elements. Its columns are the last n_last dimensions, and it has a row for each
 * index of the other dimensions. The number of columns must be the same for every item. If `exact`, each index of the
 * batched dimension is one sequence of the value's axis. Otherwise the axis may be any axis with the same number of
 * rows. */
int tensor_rows(struct module *module, struct tensor t, int n_last, bool exact);

/* Returns the tensor of a value that a step computed row by row from the value of tensor_rows. The tensor has the
 * leading dimensions of t, and one dimension of `columns` in place of the last n_last. */
struct tensor tensor_of_rows(struct module *module, int value, struct tensor t, int n_last, int64_t columns);

/* Returns a tensor whose elements will be in order in a new value. The caller appends the steps that write the value.
 */
struct tensor tensor_new(struct module *module, int rank, const struct tensor_dimension *dims);

/* The target for steps that write a tensor of tensor_new: its axis and columns. The first step makes the value. */
struct plan_target tensor_target(struct module *module, const struct tensor *t);

/* ---- Questions ---- */

/* The product of the sizes, without the batch. */
int tensor_elements(struct module *module, const struct tensor *t);
/* Writes the sizes of all dimensions, including the batch. */
void tensor_whole_sizes(struct module *module, const struct tensor *t, int *sizes);
int tensor_batched_dim(const struct tensor *t); /* -1 if there is none */

/* Whether the tensor contains every element of its value exactly once, in any order of dimensions. Writes the numbers
 * of the dimensions to `order`, from the outermost in memory to the innermost. */
bool tensor_is_whole(struct module *module, const struct tensor *t, int *order);

/* A weight (rows, columns) with the tensor's elements in order. The tensor must be a view of a weight, with sizes that
 * are the same for every item. */
int tensor_weight(struct module *module, struct tensor t, int64_t rows, int64_t columns);
/* The tensor as a weight of `count` elements. PLAN_NONE after a failure. */
int tensor_vector(struct module *module, struct tensor t, int64_t count);

/* Whether the elements are int32_t ids. Otherwise they are floats. */
bool tensor_is_ids(const struct module *module, const struct tensor *t);

/* The tensor itself, or a copy in a value if it is a view of a weight. */
struct tensor tensor_as_value(struct module *module, struct tensor t);

/* The same tensor with float elements. */
struct tensor tensor_as_floats(struct module *module, struct tensor t);

/* Applies a function of one number to every element. If possible, the result has the same order in memory as t. */
struct tensor tensor_activate(struct module *module, struct tensor t, struct plan_activation activation);

/* f(x, z) element by element. Dimensions of size 1 are repeated as in PyTorch (broadcasting). */
struct tensor tensor_combine(struct module *module, enum plan_function function, struct tensor x, struct tensor z);

/* f(x, number), or f(number, x). */
struct tensor tensor_combine_number(struct module *module, enum plan_function function, struct tensor x, double number,
                                    bool number_first);

/* Reduces the `count` dimensions `dims`. If `keep`, they stay with size 1. */
struct tensor tensor_reduced(struct module *module, enum plan_reduction reduction, struct tensor t, const int *dims,
                             int count, bool keep, double parameter);

/* Turns a dimension (n) into two dimensions (windows, size). An element may be in several windows. */
struct tensor tensor_windows(struct module *module, struct tensor x, int dim, int64_t size, int64_t stride,
                             int64_t dilation);

/* A tensor whose elements are all `number`. `sizes` contain the batch. */
struct tensor tensor_filled(struct module *module, double number, int rank, const int *sizes);

/* A product along one dimension with a matrix (out, in). */
struct tensor tensor_mapped(struct module *module, struct tensor t, int dim, int matrix, int64_t out);

struct tensor tensor_softmax(struct module *module, struct tensor t, int dim, bool logarithm);

/* scale * x (…, m, k) z (…, k, n). Leading dimensions of size 1 are repeated. */
struct tensor tensor_multiply(struct module *module, struct tensor x, struct tensor z, double scale);

/* Adds elements at both ends of a dimension. `mode` is "constant", with the content `number`, "reflect" or "replicate".
 * Negative counts remove elements. */
struct tensor tensor_padded(struct module *module, struct tensor x, int dim, int64_t before, int64_t after,
                            const char *mode, double number);

/* The stride of a dimension, or 0 if it has one element. */
int tensor_stride(const struct module *module, const struct tensor *t, int dim);

/* A dimension of a space over x, z and y. */
static inline struct plan_dimension space_dimension(int count, int x, int z, int y)
{
    return (struct plan_dimension){.count = count, .x = x, .z = z, .keys = PLAN_NONE, .y = y};
}

#endif
