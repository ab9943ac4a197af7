/* Which steps the CUDA backend does in one kernel: launches of a batch, as the shim counts them; on a device
 * nobody does. That they are right is for test_operations_*. */
#define DEVICE "cuda"
int run_operations(void);
#define main run_operations
#include "tests/unit/test_operations.c"
#undef main

#include "tests/cuda/counts.h"
#include "tests/cuda/schedules.h"

/* Launches of a batch of one item that wants its hidden state. */
static int64_t launches_of(struct bench *bench)
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

/* One for each input and step, but for those that are fused, and for what is given to nobody. */
static void expect_fused(struct bench *bench, int64_t fused)
{
    int64_t launches = launches_of(bench), unfused = bench->plan->n_inputs;
    for (int i = 0; i < bench->plan->n_steps; i++) {
        enum operation operation = bench->plan->steps[i].operation;
        unfused += operation != OP_GIVE_POOLED && operation != OP_GIVE_OUTPUT;
    }
    assert_int_equal(unfused - launches, fused);
    bench_end(bench);
}

static void pairs_are_one_launch(void **state)
{
    static const int64_t fused[PAIRS] = {
        [EMBED_POSITIONS] = 2, [EMBED_AXIAL_POSITIONS] = 2, [EMBED_SINUSOIDS] = 1, [ADD] = 1, [NORM_SHIFT] = 1};
    struct bench bench;
    (void)state;
    if (on_device())
        skip();
    for (int pair = 0; pair < PAIRS; pair++)
        for (int read_twice = 0; read_twice < 2; read_twice++) {
            build_pair(&bench, (enum pair)pair, 24, read_twice);
            expect_fused(&bench, fused[pair]);
        }
}

/* What is embedded is read by others, too; a norm of groups; a norm of what the step before did not give; a shift that
 * writes over what is normed. */
static void others_are_not(void **state)
{
    struct bench bench;
    const int64_t shifts[] = {1, 0};
    const struct shape tables[] = {{"table", 7, 24}, {"positions", 40, 24}};
    (void)state;
    if (on_device())
        skip();
    struct plan_builder *builder = bench_begin(&bench, tables, COUNT(tables));
    builder->as_built = true;
    int x = plan_embed(builder, plan_input_ids(builder, "x", 7, 40, PLAN_NONE), plan_matrix(builder, 7, 24, "table"));
    int y = plan_add_positions(builder, x, plan_matrix(builder, 40, 24, "positions"), PLAN_NONE, 1);
    plan_give(builder, plan_concatenate(builder, x, y), PLAN_NONE, PLAN_NONE, false);
    expect_fused(&bench, 0);

    const struct shape norms[] = {{"gain", 0, 12}, {"bias", 0, 12}};
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

static int run_fusion(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_one_launch),
        cmocka_unit_test(others_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    bench_options.device = DEVICE;
    return run_schedules(run_fusion);
}
