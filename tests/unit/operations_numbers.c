/* Tests of functions of one number, alone and fused into products, and of ids that a plan computes. */
#include "tests/unit/operation_spaces.h"
#include "tests/unit/operation_tests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_smooth(enum activation kind)
{
    return kind <= ACTIVATION_ABSOLUTE || kind == ACTIVATION_SIN || kind == ACTIVATION_COS || kind == ACTIVATION_ERF;
}

/* The arguments are computed from ids, and are exact in bf16. Functions with steps thus have the same arguments on each
 * backend. The arguments are greater than 0 and less than 4, so that logarithms and roots are finite. */
static void check_activation(struct plan_activation activation)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE);
    int x = plan_activate_with(builder, ids, (struct plan_activation){ACTIVATION_AFFINE, 0.5f, 0.25f}, false);
    plan_give(builder, plan_activate_with(builder, x, activation, false), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_activations(void **state)
{
    (void)state;
    for (int kind = 0; kind < ACTIVATION_COUNT; kind++)
        check_activation((struct plan_activation){(enum activation)kind, 0.25f, 1.5f});
}

enum epilogue_place { WITH_RESIDUAL, BETWEEN_PRODUCTS, IN_A_GATE, EPILOGUE_PLACES };

static void check_epilogue(struct plan_activation activation, enum epilogue_place place, int64_t half)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {
        {"w", 2 * half, 19}, {"b", 0, 2 * half}, {"u", 19, half}, {"v", 19, 2 * half}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 19, LONGEST, PLAN_NONE), w = plan_matrix(builder, 2 * half, 19, "w");
    int bias = plan_vector(builder, 2 * half, "b"), u = plan_matrix(builder, 19, half, "u");
    int v = plan_matrix(builder, 19, 2 * half, "v"), y = plan_linear(builder, x, w, bias);
    if (place == IN_A_GATE)
        y = plan_linear(builder, plan_gate(builder, y, activation), u, PLAN_NONE);
    else
        y = plan_activate_with(builder, y, activation, false);
    if (place == WITH_RESIDUAL)
        y = plan_add(builder, y, plan_linear(builder, x, w, PLAN_NONE), 1.0f);
    if (place == BETWEEN_PRODUCTS)
        y = plan_linear(builder, y, v, PLAN_NONE);
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Softplus has a step where a x equals b. In this test, the step is at x = 50. No product comes near 50, so rounding
 * cannot move a product over the step. */
void test_epilogues(void **state)
{
    (void)state;
    for (int kind = 0; kind < ACTIVATION_COUNT; kind++) {
        struct plan_activation activation = {(enum activation)kind, 0.5f, kind == ACTIVATION_SOFTPLUS ? 25 : 1.25f};
        for (int place = 0; is_smooth((enum activation)kind) && place < EPILOGUE_PLACES; place++)
            check_epilogue(activation, (enum epilogue_place)place, 20);
    }
    /* On CUDA, 21 columns do not consist of whole packs of 16 bytes. */
    check_epilogue((struct plan_activation){.kind = ACTIVATION_GELU}, IN_A_GATE, 21);
}

/* The product computes each function. The plan contains no separate step for the function. */
void test_every_activation_is_fused(void **state)
{
    (void)state;
    for (int kind = 1; kind < ACTIVATION_COUNT; kind++) {
        struct bench bench;
        const struct tensor_shape shapes[] = {{"w", 8, 8}};
        struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
        int x = plan_input_rows(builder, "x", 8, LONGEST, PLAN_NONE);
        int y = plan_linear(builder, x, plan_matrix(builder, 8, 8, "w"), PLAN_NONE);
        struct plan_activation activation = {(enum activation)kind, 2, 3};
        plan_give(builder, plan_activate_with(builder, y, activation, false), PLAN_NONE, PLAN_NONE, false);
        bench_place(&bench);
        for (int i = 0; i < bench.plan->n_steps; i++)
            assert_int_not_equal(bench.plan->steps[i].operation, OP_ACTIVATE);
        bench_end(&bench);
    }
}

/* Ids are computed from floats and from ids. An id outside of the table gives a row of NaN, and a step replaces NaN by
 * a number. */
void test_computed_ids_select_rows_of_a_table(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"table", 5, 16}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, 16);
    int x = plan_activate_with(builder, ids, (struct plan_activation){ACTIVATION_AFFINE, 1.5f, -2.5f}, false);
    int computed = plan_activate_with(builder, x, (struct plan_activation){.kind = ACTIVATION_NONE}, true);
    int y = plan_embed(builder, computed, plan_matrix(builder, 5, 16, "table"));
    int lost = plan_activate(builder, y, ACTIVATION_IS_NAN);
    int dense = space_of_rows(s, s.zero, s.zero, s.columns, s.one, s.columns, s.one);
    y = plan_select(builder, lost, number_source(-7), value_source(y), dense, like(builder, y));
    struct plan_activation huge = {ACTIVATION_AFFINE, 1e9f, 0};
    int far = plan_activate_with(builder, plan_activate_with(builder, ids, huge, true), huge, true);
    far = plan_activate(builder, plan_embed(builder, far, plan_matrix(builder, 5, 16, "table")), ACTIVATION_IS_NAN);
    plan_give(builder, plan_add(builder, y, far, 1.0f), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}
