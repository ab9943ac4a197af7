/* operation_spaces: helpers for tests of operations over a space. A space is a nest of loops, with a stride of each
 * operand for each loop (engine/plan/space.h). */
#ifndef TESTS_UNIT_OPERATION_SPACES_H
#define TESTS_UNIT_OPERATION_SPACES_H

#include "engine/plan/sizes.h"
#include "tests/unit/operation_bench.h"

#define LONGEST 85 /* maximum number of rows of an item */
#define FEW 20     /* maximum number of rows of an item that has many columns */

/* The sizes of an item (n, columns), and the constant sizes 0 and 1. A size is an integer that may depend on the
 * item. */
struct sized {
    struct plan_builder *builder;
    int n, columns, one, zero;
};

static inline struct sized sizes_of(struct plan_builder *builder, int64_t columns)
{
    return (struct sized){builder, plan_size_free(builder, 0, 0, 1, LONGEST), plan_size_constant(builder, columns),
                          plan_size_constant(builder, 1), plan_size_constant(builder, 0)};
}

static inline struct plan_source value_source(int value)
{
    return (struct plan_source){value, PLAN_NONE, 0};
}

static inline struct plan_source weight_source(int weight)
{
    return (struct plan_source){PLAN_NONE, weight, 0};
}

static inline struct plan_source number_source(float number)
{
    return (struct plan_source){PLAN_NONE, PLAN_NONE, number};
}

/* Returns a target with the axis and the number of columns of the value. */
static inline struct plan_target like(struct plan_builder *builder, int value)
{
    const struct plan_value *of = plan_value_at(builder, value);
    return (struct plan_target){of->axis, of->columns, of->ids, PLAN_NONE};
}

/* Adds a space that visits all elements of y (n, columns). The arguments are the strides of x, of z and of the
 * condition c, along the rows and along the columns. */
static inline int space_of_rows(struct sized s, int x_row, int x_column, int z_row, int z_column, int c_row,
                                int c_column)
{
    struct plan_space space = {
        .rank = 2,
        .dimensions = {{s.n, x_row, z_row, c_row, s.columns}, {s.columns, x_column, z_column, c_column, s.one}},
        .x_first = s.zero,
        .z_first = s.zero,
        .keys_first = s.zero,
        .y_first = s.zero};
    return plan_add_space(s.builder, &space);
}

/* Adds nn.Conv1d over a sequence of n rows. The step regards the sequence as an image of height 1. A window covers
 * `kernel` rows. */
static inline int convolve_rows(struct plan_builder *builder, int x, int weight, int bias, int64_t kernel,
                                int64_t dilation, int64_t groups)
{
    int one = plan_size_constant(builder, 1), n = plan_size_free(builder, 0, 0, 1, 85);
    int64_t before = (kernel - 1) * dilation / 2;
    struct plan_convolution convolution = {
        .weight = weight,
        .bias = bias,
        .window = {{1, kernel}, {1, 1}, {0, before}, {0, (kernel - 1) * dilation - before}, {1, dilation}},
        .groups = groups,
        .height = one,
        .width = n,
        .made_height = one,
        .made_width = n,
        .scale = 1.0f};
    return plan_convolve_image(builder, x, convolution);
}

#endif
