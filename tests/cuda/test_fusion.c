/* Steps that the CUDA backend runs together in one kernel (fusion). The test reads the shim's number of launches, and
 * is skipped on a device. test_operations_* compare the results of these kernels. */
#define DEVICE DEVICE_CUDA
int run_operations(void);
#define main run_operations
#include "tests/unit/test_operations.c"
#undef main

#include "tests/cuda/counts.h"
#include "tests/cuda/schedules.h"
#include "tests/unit/fused_plans.h"

/* Returns the number of launches for a batch of one item that requests its hidden state. */
static int64_t launches_in(struct bench *bench)
{
    struct bench_results results;
    struct engine_item item;
    bench_place(bench);
    bench_random_item(bench->plan, &item, &results);
    item.pooled = item.output = NULL;
    item.n_rows = item.n_extras = 0;
    uint64_t before = count(LAUNCHES);
    bench_compute(bench, &item, 1);
    int64_t launches = (int64_t)(count(LAUNCHES) - before);
    bench_free_item(&item, &results);
    return launches;
}

/* Expects one launch for each input and step, minus the `fused` steps. Steps for results that no item requests are not
 * launched. Rows are not gathered, because the hidden states of all rows are requested. */
static void expect_fused(struct bench *bench, int64_t fused)
{
    int64_t launches = launches_in(bench), unfused = bench->plan->n_inputs;
    for (int i = 0; i < bench->plan->n_steps; i++) {
        enum operation operation = bench->plan->steps[i].operation;
        unfused += operation != OP_GIVE_POOLED && operation != OP_GIVE_OUTPUT && operation != OP_GATHER_ROWS;
    }
    assert_int_equal(unfused - launches, fused);
    bench_end(bench);
}

static void fused_pairs_of_steps_are_one_launch(void **state)
{
    (void)state;
    static const int64_t fused[PAIRS] = {
        [EMBED_POSITIONS] = 2, [EMBED_AXIAL_POSITIONS] = 2, [EMBED_SINUSOIDS] = 1, [ADD] = 1, [NORM_SHIFT] = 1};
    struct bench bench;
    if (on_device())
        skip();
    for (int pair = 0; pair < PAIRS; pair++)
        for (int read_twice = 0; read_twice < 2; read_twice++) {
            build_pair(&bench, (enum fused_pair)pair, 24, read_twice);
            expect_fused(&bench, fused[pair]);
        }
}

/* Four plans whose steps are not fused, for these reasons: Another step also reads the embedded rows. The norm has
 * groups. The norm does not read the result of the step before it. The result of the shift overwrites the input of the
 * norm. */
static void other_pairs_of_steps_are_two_launches(void **state)
{
    (void)state;
    struct bench bench;
    const int64_t shifts[] = {1, 0};
    const struct tensor_shape tables[] = {{"table", 7, 24}, {"positions", 40, 24}};
    if (on_device())
        skip();
    struct plan_builder *builder = bench_begin(&bench, tables, COUNT(tables));
    builder->as_built = true;
    int x = plan_embed(builder, plan_input_ids(builder, "x", 7, 40, PLAN_NONE), plan_matrix(builder, 7, 24, "table"));
    int y = plan_add_positions(builder, x, plan_matrix(builder, 40, 24, "positions"), PLAN_NONE, 1);
    plan_give(builder, plan_concatenate(builder, x, y), PLAN_NONE, PLAN_NONE, false);
    expect_fused(&bench, 0);

    const struct tensor_shape norms[] = {{"gain", 0, 12}, {"bias", 0, 12}};
    builder = bench_begin(&bench, norms, COUNT(norms));
    builder->as_built = true;
    x = plan_input_rows(builder, "x", 24, 40, PLAN_NONE);
    x = plan_add(builder, x, plan_activate(builder, x, ACTIVATION_GELU), 0.5f);
    x = plan_layer_norm(builder, x, plan_vector(builder, 12, "gain"), plan_vector(builder, 12, "bias"), 1e-5f);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    expect_fused(&bench, 0);

    builder = bench_begin(&bench, norms, COUNT(norms));
    builder->as_built = true;
    x = plan_input_rows(builder, "x", 12, 40, PLAN_NONE);
    y = plan_add(builder, x, plan_activate(builder, x, ACTIVATION_GELU), 0.5f);
    x = plan_layer_norm(builder, x, plan_vector(builder, 12, "gain"), plan_vector(builder, 12, "bias"), 1e-5f);
    plan_give(builder, plan_concatenate(builder, x, y), PLAN_NONE, PLAN_NONE, false);
    expect_fused(&bench, 0);

    builder = bench_begin(&bench, norms, COUNT(norms));
    builder->as_built = true;
    x = plan_input_rows(builder, "x", 12, 40, PLAN_NONE);
    x = plan_layer_norm(builder, x, plan_vector(builder, 12, "gain"), plan_vector(builder, 12, "bias"), 1e-5f);
    plan_give(builder, plan_shift_tokens(builder, x, 2, shifts), PLAN_NONE, PLAN_NONE, false);
    expect_fused(&bench, 0);
}

static int64_t launches_of_projections(struct fused_projection e, struct fused_projection f, int64_t least,
                                       int64_t most)
{
    struct bench bench;
    build_projections(&bench, e, f, 24);
    struct plan *plan = bench.builder.plan;
    int axis = plan->values[plan->steps[0].x].axis;
    plan->steps[0].only = (struct plan_selection){axis, 1, 40};
    plan->steps[1].only = (struct plan_selection){axis, least, most};
    int64_t launches = launches_in(&bench);
    bench_end(&bench);
    return launches;
}

/* Eᵀx and Fᵀx are one launch if only their weights differ. They are two launches if they select items by different
 * lengths, even if all items are computed. k times columns is more than FEW_SUMS. Therefore no sum is divided into
 * parts, and no launch adds parts. */
static void neighbouring_projections_are_one_launch(void **state)
{
    (void)state;
    const struct fused_projection e = {20, 1, 40, false, true};
    const struct fused_projection others[][2] = {{e, {21, 1, 40, false, true}},
                                                 {{20, 1, 120, false, true}, {20, 3, 40, false, true}},
                                                 {e, {20, 1, 41, false, true}},
                                                 {{40, 1, 40, false, true}, {40, 1, 40, true, true}},
                                                 {e, {20, 1, 40, false, false}}};
    if (on_device())
        skip();
    int64_t launches = launches_of_projections(e, e, 1, 40);
    for (size_t i = 0; i < COUNT(others); i++)
        assert_int_equal(launches_of_projections(others[i][0], others[i][1], 1, 40), launches + 1);
    assert_int_equal(launches_of_projections(e, e, 0, 40), launches + 1);
    assert_int_equal(launches_of_projections(e, e, 1, 41), launches + 1);
    struct bench bench;
    build_projections(&bench, e, e, 24);
    expect_fused(&bench, 1);
}

/* The pass re-associate makes neighbouring projections. After each launch of a projection, another launch computes the
 * additional columns of biases. Projections with different columns are two launches. E is longer than an item, because
 * cuBLASLt would compute items that are as long as E. */
static void projections_that_a_pass_makes_are_one_launch(void **state)
{
    (void)state;
    struct bench bench;
    if (on_device())
        skip();
    build_chains(&bench, (struct fused_projection){20, 1, 41, false, false}, false, false, true);
    expect_fused(&bench, 1);
    build_chains(&bench, (struct fused_projection){20, 1, 41, true, true}, true, true, true);
    expect_fused(&bench, 0);
    build_chains(&bench, (struct fused_projection){20, 1, 41, true, true}, true, false, true);
    expect_fused(&bench, -2);
}

/* Two projections are two launches if they read different x, or if other steps are between them. */
static void separate_projections_are_two_launches(void **state)
{
    (void)state;
    const struct tensor_shape shapes[] = {{"e", 40, 20}, {"f", 40, 20}};
    const struct fused_projection e = {20, 1, 40, false, false};
    const struct plan_attention attention = {.heads = 1, .kv_heads = 1, .scale = 0.1f};
    if (on_device())
        skip();
    for (int other_x = 0; other_x < 2; other_x++) {
        struct bench bench;
        struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
        builder->as_built = true;
        int x = plan_input_rows(builder, "x", 24, 40, PLAN_NONE);
        int y = other_x ? plan_activate(builder, x, ACTIVATION_GELU) : x;
        int first = add_projection(builder, x, e, "e", NULL);
        if (!other_x)
            first = plan_attend(builder, x, first, first, attention);
        int second = add_projection(builder, y, e, "f", NULL);
        if (other_x)
            first = plan_attend(builder, x, first, first, attention);
        second = plan_attend(builder, x, second, second, attention);
        plan_give(builder, plan_concatenate(builder, first, second), PLAN_NONE, PLAN_NONE, false);
        expect_fused(&bench, 0);
    }
}

static int run_fusion(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fused_pairs_of_steps_are_one_launch),
        cmocka_unit_test(other_pairs_of_steps_are_two_launches),
        cmocka_unit_test(neighbouring_projections_are_one_launch),
        cmocka_unit_test(projections_that_a_pass_makes_are_one_launch),
        cmocka_unit_test(separate_projections_are_two_launches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    bench_options.device.kind = DEVICE;
    bench_options.cuda_f32 = CUDA_F32_PLAIN; /* cuBLASLt computes the products, which do not count as launches */
    return run_schedules(run_fusion);
}
