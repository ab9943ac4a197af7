/* tensor: views of values and weights, and the values that hold a view's elements in order. Functions return an
 * arbitrary tensor after a failure. The builder records the failure. */
#ifndef ENGINE_FAMILIES_MODULE_TENSOR_H
#define ENGINE_FAMILIES_MODULE_TENSOR_H

#include "engine/families/module/graph.h"

/* ---- Views: no step ---- */
struct tensor tensor_permute(struct module *module, struct tensor t, const int *order);
struct tensor tensor_unsqueeze(struct module *module, struct tensor t, int dim);
struct tensor tensor_squeeze(struct module *module, struct tensor t, int dim);
/* Elements [start, start + length * step) of a dimension. A slice of a product's columns adds
 * a smaller product instead, with a part of the weight. */
struct tensor tensor_slice(struct module *module, struct tensor t, int dim, int start, int length, int64_t step);
/* Repeats dimensions of size 1, and adds leading ones. `sizes` contain the batch. */
struct tensor tensor_expand(struct module *module, struct tensor t, int rank, const int *sizes);

/* ---- Views where the elements lie in order, else an arranged copy ---- */

/* `sizes` contain the batch; one may be the constant -1. */
struct tensor tensor_reshape(struct module *module, struct tensor t, int rank, const int *sizes);

/* A copy whose elements lie in order. */
struct tensor tensor_arranged(struct module *module, struct tensor t);

/* The value with the last n_last dimensions as its columns, and a row for each of the others. The elements of the last
 * dimensions must be a constant number. With `exact`, each index of the batched dimension is one sequence of the
 * value's axis. Else the axis may be any one with as many rows. */
int tensor_rows(struct module *module, struct tensor t, int n_last, bool exact);

/* The tensor of a value that was computed row by row from tensor_rows' value. It has t's leading dimensions, and
 * `columns` in place of the last n_last. */
struct tensor tensor_of_rows(struct module *module, int value, struct tensor t, int n_last, int64_t columns);

/* A tensor of a new value that holds the dimensions in order. The caller fills the value. */
struct tensor tensor_new(struct module *module, int rank, const struct tensor_dimension *dims);

/* Where steps write a tensor of tensor_new: its axis and columns. Its value is set by the first step. */
struct plan_target tensor_target(struct module *module, const struct tensor *t);

/* ---- Questions ---- */

/* The product of the sizes, without the batch. */
int tensor_elements(struct module *module, const struct tensor *t);
/* The sizes of all dimensions, with the batch. */
void tensor_whole_sizes(struct module *module, const struct tensor *t, int *sizes);
int tensor_batched_dim(const struct tensor *t); /* -1: none */

/* Whether the tensor is all of a value's elements, each once, in any order of dimensions. `order` receives the
 * dimensions from the outermost to the innermost in memory. */
bool tensor_is_whole(struct module *module, const struct tensor *t, int *order);

/* A weight (rows, columns) with the tensor's elements in order. The tensor must be a weight's, of constant sizes. */
int tensor_weight(struct module *module, struct tensor t, int64_t rows, int64_t columns);
/* A weight of `count` elements; PLAN_NONE: refused. */
int tensor_vector(struct module *module, struct tensor t, int64_t count);

/* The element type of a tensor's value. */
bool tensor_is_ids(const struct module *module, const struct tensor *t);

/* The same tensor with a value of its own, if it is a weight's. */
struct tensor tensor_as_value(struct module *module, struct tensor t);

/* The same tensor with float elements. */
struct tensor tensor_as_floats(struct module *module, struct tensor t);

/* Every element through a function of one argument. The result has the same order in memory where possible. */
struct tensor tensor_activate(struct module *module, struct tensor t, struct plan_activation activation);

/* f(x, z) of elements, with dimensions of size 1 repeated. */
struct tensor tensor_combine(struct module *module, enum plan_function function, struct tensor x, struct tensor z);

/* f(x, number), or f(number, x). */
struct tensor tensor_combine_number(struct module *module, enum plan_function function, struct tensor x, double number,
                                    bool number_first);

/* Reduces the dimensions `dims`; with `keep` they stay, with size 1. */
struct tensor tensor_reduced(struct module *module, enum plan_reduction reduction, struct tensor t, const int *dims,
                             int count, bool keep, double parameter);

/* A dimension as windows: (n) -> (windows, size), whose elements may be in several windows. */
struct tensor tensor_windows(struct module *module, struct tensor x, int dim, int64_t size, int64_t stride,
                             int64_t dilation);

struct tensor tensor_softmax(struct module *module, struct tensor t, int dim, bool logarithm);

/* scale * x (…, m, k) z (…, k, n), with leading dimensions of size 1 repeated. */
struct tensor tensor_multiply(struct module *module, struct tensor x, struct tensor z, double scale);

/* Adds elements before and after those of a dimension: "constant", "reflect" or "replicate". Negative counts cut. */
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
