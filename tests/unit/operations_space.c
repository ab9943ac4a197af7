/* Tests of operations that visit the elements of a space one by one: arrange, combine, select. */
#include "engine/plan/axes.h"
#include "tests/unit/operation_spaces.h"
#include "tests/unit/operation_tests.h"

/* Permutes the dimensions of x (n, a, b) into the given order. The result y is dense. */
static int permute(struct sized s, int x, int64_t a, int64_t b, const int *order)
{
    struct plan_builder *builder = s.builder;
    int of_a = plan_size_constant(builder, a), of_b = plan_size_constant(builder, b);
    const int counts[] = {s.n, of_a, of_b}, strides[] = {s.columns, of_b, s.one};
    struct plan_space space = {.rank = 3, .x_first = s.zero, .y_first = s.zero};
    int dense = s.one;
    for (int d = 2; d >= 0; d--) {
        space.dimensions[d] = (struct plan_dimension){counts[order[d]], strides[order[d]], s.zero, s.zero, dense};
        dense = plan_size_multiply(builder, dense, counts[order[d]]);
    }
    return plan_arrange(builder, value_source(x), plan_add_space(builder, &space), like(builder, x));
}

/* The elements of a large value are divided among threads. If b is small, the runs of neighbouring elements are
 * short. */
static void check_permutations(int64_t a, int64_t b)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t i = 0; i < COUNT(orders); i++) {
        struct bench bench;
        struct plan_builder *builder = bench_begin(&bench, NULL, 0);
        int x = plan_input_rows(builder, "x", a * b, LONGEST, PLAN_NONE);
        plan_give(builder, permute(sizes_of(builder, a * b), x, a, b, orders[i]), PLAN_NONE, PLAN_NONE, false);
        bench_run(&bench);
    }
}

void test_permute(void **state)
{
    (void)state;
    check_permutations(4, 5);
    check_permutations(3, 1);
    check_permutations(8, 64);
}

/* Adds a step that copies `columns` columns, beginning with column `from` of x, to column `to` of y. Other steps may
 * write the other columns of y. */
static int copy_columns(struct sized s, struct plan_source x, int64_t from, int64_t to, int64_t columns,
                        struct plan_target y)
{
    struct plan_builder *builder = s.builder;
    int count = plan_size_constant(builder, columns), wide = plan_size_constant(builder, y.columns);
    bool is_value = x.value != PLAN_NONE;
    struct plan_space space = {
        .rank = 2,
        .dimensions = {{s.n, is_value ? s.columns : s.zero, 0, 0, wide}, {count, s.one, 0, 0, s.one}},
        .x_first = plan_size_constant(builder, from),
        .y_first = plan_size_constant(builder, to)};
    return plan_arrange(builder, x, plan_add_space(builder, &space), y);
}

/* Four steps write the columns of y, from two values, a weight, and a number. Steps between these four compute other
 * values. The other values must not take the place of y in memory. */
void test_arrange_parts(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 0, 9}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 20, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, 20);
    struct plan_target y = like(builder, x);
    y.value = copy_columns(s, value_source(x), 11, 0, 6, y);
    int other = plan_activate(builder, x, ACTIVATION_RELU);
    copy_columns(s, weight_source(plan_vector(builder, 9, "w")), 2, 6, 7, y);
    other = plan_add(builder, other, x, 0.5f);
    copy_columns(s, number_source(-2.5f), 0, 13, 3, y);
    copy_columns(s, value_source(other), 3, 16, 4, y);
    plan_give(builder, plan_add(builder, y.value, other, 1.0f), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* The first value contains two copies of the sequence, each behind one row of weights. Its axis therefore has 2 (n + 1)
 * rows. The second value contains the last n of these rows in reverse order. */
void test_arrange_rows(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 0, 24}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 40, PLAN_NONE);
    struct sized s = sizes_of(builder, 24);
    int two = plan_size_constant(builder, 2), rows = plan_size_add(builder, s.n, s.one);
    int each = plan_size_multiply(builder, rows, s.columns), all = plan_size_multiply(builder, s.n, s.columns);
    struct plan_target y = {plan_sized_axis(builder, rows, two), 24, false, PLAN_NONE};
    struct plan_space first = {.rank = 2,
                               .dimensions = {{two, s.zero, 0, 0, each}, {s.columns, s.one, 0, 0, s.one}},
                               .x_first = s.zero,
                               .y_first = s.zero};
    struct plan_space rest = {.rank = 2,
                              .dimensions = {{two, s.zero, 0, 0, each}, {all, s.one, 0, 0, s.one}},
                              .x_first = s.zero,
                              .y_first = s.columns};
    y.value = plan_arrange(builder, weight_source(plan_vector(builder, 24, "w")), plan_add_space(builder, &first), y);
    plan_arrange(builder, value_source(x), plan_add_space(builder, &rest), y);
    int last = plan_size_subtract(builder, plan_size_multiply(builder, each, two), s.columns);
    struct plan_space back = {
        .rank = 2,
        .dimensions = {{s.n, plan_size_constant(builder, -24), 0, 0, s.columns}, {s.columns, s.one, 0, 0, s.one}},
        .x_first = last,
        .y_first = s.zero};
    int z = plan_arrange(builder, value_source(y.value), plan_add_space(builder, &back), like(builder, x));
    plan_give(builder, z, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Arranges the ids in reverse order, and replaces the first one. An embedding reads the arranged ids. */
void test_arrange_ids(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"table", 9, 16}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, 1);
    int last = plan_size_subtract(builder, s.n, s.one);
    struct plan_space back = {.rank = 1,
                              .dimensions = {{last, plan_size_constant(builder, -1), 0, 0, s.one}},
                              .x_first = last,
                              .y_first = s.one};
    struct plan_space first = {.rank = 0, .y_first = s.zero};
    struct plan_target y = like(builder, ids);
    y.value = plan_arrange(builder, value_source(ids), plan_add_space(builder, &back), y);
    plan_arrange(builder, number_source(8), plan_add_space(builder, &first), y);
    int x = plan_embed(builder, y.value, plan_matrix(builder, 9, 16, "table"));
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

enum layout_of_z { Z_LIKE_X, Z_VECTOR, Z_POSITIONS, Z_NUMBER, Z_OF_ROW, Z_KINDS };

static void check_combine(int64_t columns, enum layout_of_z kind, enum plan_function function, bool z_first)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 0, columns}, {"positions", LONGEST, columns}, {"column", 1, columns}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", columns, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, columns);
    int row = s.zero, column = s.one;
    struct plan_source z = value_source(plan_activate(builder, x, ACTIVATION_GELU));
    int weights[] = {plan_vector(builder, columns, "w"), plan_matrix(builder, LONGEST, columns, "positions"),
                     plan_matrix(builder, 1, columns, "column")};
    if (kind == Z_VECTOR)
        z = weight_source(weights[0]);
    if (kind == Z_POSITIONS)
        z = weight_source(weights[1]);
    if (kind == Z_NUMBER)
        z = number_source(-0.75f);
    if (kind == Z_OF_ROW) {
        z = value_source(plan_linear(builder, x, weights[2], PLAN_NONE));
        row = s.one;
        column = s.zero;
    }
    if (kind == Z_LIKE_X || kind == Z_POSITIONS)
        row = s.columns;
    int space = space_of_rows(s, s.columns, s.one, row, column, s.zero, s.zero);
    int y = plan_combine(builder, function, x, z, z_first, space, like(builder, x));
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_combine(void **state)
{
    (void)state;
    static const enum plan_function functions[] = {FUNCTION_ADD, FUNCTION_SUBTRACT, FUNCTION_MULTIPLY, FUNCTION_MAXIMUM,
                                                   FUNCTION_MINIMUM};
    for (int kind = 0; kind < Z_KINDS; kind++)
        for (size_t f = 0; f < COUNT(functions); f++)
            check_combine(f % 2 ? 3 : 37, kind, functions[f], (kind + f) % 2);
    check_combine(320, Z_LIKE_X, FUNCTION_ADD, false);
    check_combine(320, Z_VECTOR, FUNCTION_MULTIPLY, false);
    check_combine(320, Z_OF_ROW, FUNCTION_SUBTRACT, true);
}

/* Builds a value (n, 6) of numbers that are exact in bf16, and not 0. */
static int numbers(struct sized s, int axis)
{
    struct plan_target y = {axis, 6, false, PLAN_NONE};
    for (int c = 0; c < 6; c++)
        y.value = copy_columns(s, number_source(0.5f * (float)c - 1.25f), 0, c, 1, y);
    return y.value;
}

/* Computes the function of x (n, 6) and of numbers(). The elements of x are multiples of 0.25. The ids are also the
 * operand of an addition. */
static void check_function(enum plan_function function, bool z_first)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE), axis = plan_value_at(builder, ids)->axis;
    struct sized s = sizes_of(builder, 6);
    int z = numbers(s, axis), dense = space_of_rows(s, s.columns, s.one, s.columns, s.one, s.zero, s.zero);
    struct plan_target y = {axis, 6, false, PLAN_NONE};
    int of_ids = space_of_rows(s, s.one, s.zero, s.zero, s.zero, s.zero, s.zero);
    int x = plan_combine(builder, FUNCTION_MULTIPLY, ids, number_source(0.25f), false, of_ids, y);
    if (z_first || function == FUNCTION_POWER) /* x must be positive */
        x = plan_combine(builder, FUNCTION_ADD, x, number_source(0.25f), false, dense, y);
    if (function == FUNCTION_POWER && z_first)
        z = plan_combine(builder, FUNCTION_ADD, z, number_source(2), false, dense, y);
    int made = plan_combine(builder, function, x, value_source(z), z_first, dense, y);
    int mixed = space_of_rows(s, s.columns, s.one, s.one, s.zero, s.zero, s.zero);
    made = plan_combine(builder, FUNCTION_ADD, made, value_source(ids), false, mixed, y);
    plan_give(builder, made, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_functions(void **state)
{
    (void)state;
    for (int f = 0; f < FUNCTION_COUNT; f++) {
        check_function((enum plan_function)f, false);
        check_function((enum plan_function)f, true);
    }
}

/* Three selections. The first selects weights if the id is greater than 2, otherwise numbers. The second selects the
 * result of the first if the id of the row is not 0, otherwise 7.5. The third selects -3 if the id is greater than 2,
 * otherwise the id. */
void test_select(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 0, 6}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE), axis = plan_value_at(builder, ids)->axis;
    struct sized s = sizes_of(builder, 6);
    struct plan_target y = {axis, 6, false, PLAN_NONE};
    int z = numbers(s, axis), of_ids = space_of_rows(s, s.one, s.zero, s.columns, s.one, s.zero, s.zero);
    int condition = plan_combine(builder, FUNCTION_LESS, ids, number_source(2.5f), true, of_ids, y);
    int space = space_of_rows(s, s.zero, s.one, s.columns, s.one, s.columns, s.one);
    int first = plan_select(builder, condition, weight_source(plan_vector(builder, 6, "w")), value_source(z), space, y);
    space = space_of_rows(s, s.columns, s.one, s.zero, s.zero, s.one, s.zero);
    int second = plan_select(builder, ids, value_source(first), number_source(7.5f), space, y);
    space = space_of_rows(s, s.zero, s.zero, s.one, s.zero, s.columns, s.one);
    int third = plan_select(builder, condition, number_source(-3), value_source(ids), space, y);
    plan_give(builder, plan_add(builder, second, third, 1.0f), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* If an id is not 0, selects the id. Otherwise selects 8. */
void test_select_ids(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"table", 9, 16}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, 1);
    int space = space_of_rows(s, s.one, s.one, s.zero, s.zero, s.one, s.one);
    int chosen = plan_select(builder, ids, value_source(ids), number_source(8), space, like(builder, ids));
    plan_give(builder, plan_embed(builder, chosen, plan_matrix(builder, 9, 16, "table")), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}
