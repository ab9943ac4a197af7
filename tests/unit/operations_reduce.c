/* Tests of reductions and products over a space. */
#include "engine/plan/axes.h"
#include "tests/unit/operation_spaces.h"
#include "tests/unit/operation_tests.h"

#include <math.h>

/* Which elements of x (n, a * b) are reduced to one element. */
enum reduced { REDUCED_B, REDUCED_A, REDUCED_ROWS, REDUCED_ROWS_AND_B, REDUCED_WINDOWS, REDUCED_KINDS };

/* Adds a value with one row per item to all rows of x. The result has the axis of x. */
static int add_row(struct sized s, int x, int row)
{
    int space = space_of_rows(s, s.columns, s.one, s.zero, s.one, s.zero, s.zero);
    return plan_combine(s.builder, FUNCTION_ADD, x, value_source(row), false, space, like(s.builder, x));
}

static void check_reduce(enum plan_reduction reduction, float parameter, enum reduced reduced, int64_t a, int64_t b)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int x = plan_input_rows(builder, "x", a * b, a * b > 32 ? FEW : LONGEST, PLAN_NONE);
    int axis = plan_value_at(builder, x)->axis;
    struct sized s = sizes_of(builder, a * b);
    /* The next three steps scale x. The softmax of the output would enlarge the error of a large sum. */
    if (reduced == REDUCED_ROWS || reduced == REDUCED_ROWS_AND_B)
        x = plan_add(builder, x, x, 0.005f);
    /* The softmax would also enlarge the error of a large product. */
    if (reduction == REDUCTION_PRODUCT)
        x = plan_add(builder, x, x, 0.25f);
    /* The error of a sum near 0 is proportional to its terms. */
    if (reduction == REDUCTION_SUM && b > 100)
        x = plan_add(builder, x, x, 0.025f);
    int of_a = plan_size_constant(builder, a), of_b = plan_size_constant(builder, b), zero = s.zero, one = s.one;
    int windows = plan_size_constant(builder, b - 2), three = plan_size_constant(builder, 3), single;
    const struct plan_dimension rows_to_a = {s.n, s.columns, 0, 0, of_a}, rows_to_b = {s.n, s.columns, 0, 0, of_b};
    struct plan_space space = {.rank = 3, .x_first = zero, .y_first = zero};
    struct plan_target y = {axis, a, false, PLAN_NONE};
    switch (reduced) {
    case REDUCED_B: /* y (n, a) */
        space.dimensions[0] = rows_to_a;
        space.dimensions[1] = (struct plan_dimension){of_a, of_b, 0, 0, one};
        space.dimensions[2] = (struct plan_dimension){of_b, one, 0, 0, zero};
        break;
    case REDUCED_A: /* y (n, b) */
        y.columns = b;
        space.dimensions[0] = rows_to_b;
        space.dimensions[1] = (struct plan_dimension){of_b, one, 0, 0, one};
        space.dimensions[2] = (struct plan_dimension){of_a, of_b, 0, 0, zero};
        break;
    case REDUCED_ROWS:       /* y (1, a * b) */
    case REDUCED_ROWS_AND_B: /* y (1, a * b), which contains each of the a results b times */
        y.axis = plan_sized_axis(builder, one, one);
        y.columns = a * b;
        space.dimensions[0] = (struct plan_dimension){of_a, of_b, 0, 0, of_b};
        space.dimensions[1] = (struct plan_dimension){of_b, one, 0, 0, one};
        space.dimensions[2] = (struct plan_dimension){s.n, s.columns, 0, 0, zero};
        break;
    case REDUCED_WINDOWS: /* y (n, b - 2): each element is made of 3 neighbouring columns of all a groups */
    case REDUCED_KINDS:
        y.columns = b - 2;
        space.rank = 4;
        space.dimensions[0] = (struct plan_dimension){s.n, s.columns, 0, 0, windows};
        space.dimensions[1] = (struct plan_dimension){windows, one, 0, 0, one};
        space.dimensions[2] = (struct plan_dimension){of_a, of_b, 0, 0, zero};
        space.dimensions[3] = (struct plan_dimension){three, one, 0, 0, zero};
        break;
    }
    if (reduced == REDUCED_ROWS_AND_B) {
        space.rank = 4;
        space.dimensions[1] = (struct plan_dimension){of_b, zero, 0, 0, one};
        space.dimensions[3] = (struct plan_dimension){of_b, one, 0, 0, zero};
    }
    single = space.rank == 3;
    int made = plan_reduce(builder, reduction, x, plan_add_space(builder, &space), single ? 1 : 2, parameter, y);
    if (y.axis != axis)
        made = add_row(s, x, made);
    plan_give(builder, made, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_reduce(void **state)
{
    (void)state;
    static const struct {
        enum plan_reduction reduction;
        float parameter;
    } kinds[] = {{REDUCTION_SUM, 0},         {REDUCTION_MEAN, 0},     {REDUCTION_MAXIMUM, 0},
                 {REDUCTION_MINIMUM, 0},     {REDUCTION_NORM, 1},     {REDUCTION_NORM, 2},
                 {REDUCTION_NORM, INFINITY}, {REDUCTION_VARIANCE, 0}, {REDUCTION_DEVIATION, 0}};
    for (int reduced = 0; reduced < REDUCED_KINDS; reduced++)
        for (size_t i = 0; i < COUNT(kinds); i++)
            check_reduce(kinds[i].reduction, kinds[i].parameter, (enum reduced)reduced, i % 2 ? 5 : 3, i % 3 ? 4 : 37);
    check_reduce(REDUCTION_PRODUCT, 0, REDUCED_B, 3, 5);
    check_reduce(REDUCTION_PRODUCT, 0, REDUCED_A, 6, 9);
    check_reduce(REDUCTION_VARIANCE, 1, REDUCED_B, 2, 300);
    check_reduce(REDUCTION_DEVIATION, 1, REDUCED_A, 7, 150);
    check_reduce(REDUCTION_SUM, 0, REDUCED_B, 1, 333);
    check_reduce(REDUCTION_MEAN, 0, REDUCED_ROWS, 1, 600);
}

/* Cumulative sums along the sequence (`along_rows`), or along each row. */
static void check_cumulate(int64_t columns, bool along_rows)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int x = plan_input_rows(builder, "x", columns, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, columns);
    const struct plan_dimension of_rows = {s.n, s.columns, 0, 0, s.columns},
                                of_columns = {s.columns, s.one, 0, 0, s.one};
    struct plan_space space = {.rank = 2,
                               .dimensions = {along_rows ? of_columns : of_rows, along_rows ? of_rows : of_columns},
                               .x_first = s.zero,
                               .y_first = s.zero};
    int y = plan_reduce(builder, REDUCTION_CUMULATE, x, plan_add_space(builder, &space), 1, 0, like(builder, x));
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_cumulate(void **state)
{
    (void)state;
    check_cumulate(9, false);
    check_cumulate(9, true);
    check_cumulate(140, true);
}

/* The ids are small, so the largest id occurs several times. One argmax reduces neighbouring elements, the other
 * reduces elements that are a row apart. */
void test_argmax(void **state)
{
    (void)state;
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE), axis = plan_value_at(builder, ids)->axis;
    struct sized s = sizes_of(builder, 4);
    int first = plan_sized_axis(builder, s.one, s.one);
    struct plan_space rows = {
        .rank = 1, .dimensions = {{s.n, s.one, 0, 0, s.zero}}, .x_first = s.zero, .y_first = s.zero};
    int largest = plan_reduce(builder, REDUCTION_ARGMAX, ids, plan_add_space(builder, &rows), 1, 0,
                              (struct plan_target){first, 1, false, PLAN_NONE});
    struct plan_target wide = {axis, 4, false, PLAN_NONE};
    int copies = space_of_rows(s, s.one, s.zero, s.zero, s.one, s.zero, s.zero), four = s.columns;
    int x = plan_combine(builder, FUNCTION_EQUAL, ids, number_source(3), false, copies, wide);
    struct plan_space columns = {.rank = 2,
                                 .dimensions = {{four, s.one, 0, 0, s.one}, {s.n, four, 0, 0, s.zero}},
                                 .x_first = s.zero,
                                 .y_first = s.zero};
    int equal = plan_reduce(builder, REDUCTION_ARGMAX, x, plan_add_space(builder, &columns), 1, 0,
                            (struct plan_target){first, 4, false, PLAN_NONE});
    int both = space_of_rows(s, s.zero, s.one, s.zero, s.zero, s.zero, s.zero);
    int y = plan_combine(builder, FUNCTION_SUBTRACT, equal, value_source(largest), false, both, wide);
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Softmax over groups of b columns, over a columns at a distance of b, and over rows. The fourth space has results that
 * are not dense. */
static void check_softmax(int64_t a, int64_t b, bool logarithm)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int x = plan_input_rows(builder, "x", a * b, a * b > 32 ? FEW : LONGEST, PLAN_NONE), y = x;
    struct sized s = sizes_of(builder, a * b);
    int of_a = plan_size_constant(builder, a), of_b = plan_size_constant(builder, b), one = s.one;
    const struct plan_dimension rows = {s.n, s.columns, 0, 0, s.columns}, columns = {s.columns, one, 0, 0, one};
    const struct plan_dimension by_a = {of_a, of_b, 0, 0, of_b}, by_b = {of_b, one, 0, 0, one};
    const struct plan_dimension spread_a = {of_a, of_b, 0, 0, one}, spread_b = {of_b, one, 0, 0, of_a};
    const struct plan_space spaces[] = {{.rank = 3, .dimensions = {rows, by_a, by_b}},
                                        {.rank = 3, .dimensions = {rows, by_b, by_a}},
                                        {.rank = 2, .dimensions = {columns, rows}},
                                        {.rank = 3, .dimensions = {rows, spread_a, spread_b}}};
    for (size_t i = 0; i < COUNT(spaces); i++) {
        struct plan_space space = spaces[i];
        space.x_first = space.y_first = s.zero;
        int made = plan_softmax(builder, x, plan_add_space(builder, &space), logarithm, like(builder, x));
        y = plan_add(builder, y, made, 1.0f);
    }
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_softmax(void **state)
{
    (void)state;
    for (int logarithm = 0; logarithm < 2; logarithm++) {
        check_softmax(3, 5, logarithm);
        check_softmax(1, 140, logarithm);
        check_softmax(70, 2, logarithm);
    }
}

/* The strides of the matrices of the heads: each row of a matrix is dense, each column is dense, or neither. */
enum matrices { MATRICES_BY_ROWS, MATRICES_BY_COLUMNS, MATRICES_SPREAD, MATRICES_KINDS };

/* The test computes two products for each head: scores (n, heads, LONGEST_PRODUCT) = x zᵀ, and scores x (n, heads, d).
 * n is the number of rows of an item, at most LONGEST_PRODUCT. */
#define LONGEST_PRODUCT 20

static void check_multiply(int64_t heads, int64_t d, enum matrices kind, float scale)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int x = plan_input_rows(builder, "x", heads * d, LONGEST_PRODUCT, PLAN_NONE);
    struct sized s = sizes_of(builder, heads * d);
    int h = plan_size_constant(builder, heads), dim = plan_size_constant(builder, d), one = s.one, zero = s.zero;
    int room = plan_size_constant(builder, LONGEST_PRODUCT), wide = plan_size_multiply(builder, h, room);
    int of_h = kind == MATRICES_SPREAD ? one : dim, of_d = kind == MATRICES_SPREAD ? h : one;
    int row = kind == MATRICES_BY_COLUMNS ? one : wide, column = kind == MATRICES_BY_COLUMNS ? wide : one;
    struct plan_target scores = {plan_value_at(builder, x)->axis, heads * LONGEST_PRODUCT, false, PLAN_NONE};
    struct plan_space first = {.rank = 4,
                               .dimensions = {{h, of_h, of_h, 0, room},
                                              {s.n, s.columns, s.columns, 0, row},
                                              {s.n, one, s.columns, 0, column},
                                              {dim, of_d, of_d, 0, one}},
                               .x_first = zero,
                               .z_first = zero,
                               .y_first = zero};
    int z = plan_activate(builder, x, ACTIVATION_GELU);
    int made = plan_multiply(builder, x, value_source(z), scale, plan_add_space(builder, &first), scores);
    struct plan_space second = {.rank = 4,
                                .dimensions = {{h, room, of_h, 0, of_h},
                                               {s.n, row, one, 0, s.columns},
                                               {dim, one, of_d, 0, of_d},
                                               {s.n, column, s.columns, 0, zero}},
                                .x_first = zero,
                                .z_first = zero,
                                .y_first = zero};
    made = plan_multiply(builder, made, value_source(x), 1.0f, plan_add_space(builder, &second), like(builder, x));
    plan_give(builder, made, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Product with a weight: y (n, out) = x W. x has more rows than one task or one tile computes. If `spread` is set, the
 * columns of x are read backwards. */
static void check_multiply_weight(int64_t in, int64_t out, bool spread)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", in, out}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", in, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, in);
    int to = plan_size_constant(builder, out), w = plan_matrix(builder, in, out, "w");
    int back = plan_size_constant(builder, -1), last = plan_size_constant(builder, in - 1);
    struct plan_target y = {plan_value_at(builder, x)->axis, out, false, PLAN_NONE};
    struct plan_space space = {.rank = 3,
                               .dimensions = {{s.n, s.columns, s.zero, 0, to},
                                              {to, s.zero, s.one, 0, s.one},
                                              {s.columns, spread ? back : s.one, to, 0, s.zero}},
                               .x_first = spread ? last : s.zero,
                               .z_first = s.zero,
                               .y_first = s.zero};
    int made = plan_multiply(builder, x, weight_source(w), 0.5f, plan_add_space(builder, &space), y);
    plan_give(builder, made, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* The scales are small, because a sum whose terms cancel keeps the errors of its largest terms. */
void test_multiply(void **state)
{
    (void)state;
    for (int kind = 0; kind < MATRICES_KINDS; kind++) {
        check_multiply(1, 1, (enum matrices)kind, 0.02f);
        check_multiply(3, 7, (enum matrices)kind, 0.01f);
        check_multiply(2, 40, (enum matrices)kind, 0.003f);
    }
    check_multiply_weight(5, 9, false);
    check_multiply_weight(300, 70, false);
    check_multiply_weight(300, 70, true);
}
