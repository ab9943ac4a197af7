/* Tests of operations on rows: embeddings, positions, norms, products with weights, projections along the sequence. */
#include "engine/plan/axes.h"
#include "engine/plan/sizes.h"
#include "tests/unit/fused_plans.h"
#include "tests/unit/operation_tests.h"

void test_embed_and_positions(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"table", 7, 33}, {"positions", 40, 33}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "x", 7, 40, PLAN_NONE);
    int x = plan_embed(builder, ids, plan_matrix(builder, 7, 33, "table"));
    x = plan_add_positions(builder, x, plan_matrix(builder, 40, 33, "positions"), PLAN_NONE, 1);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void check_axial_positions(int64_t columns)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"rows", 5, columns}, {"columns", 8, columns}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", columns, 40, PLAN_NONE);
    int major = plan_matrix(builder, 5, columns, "rows"), minor = plan_matrix(builder, 8, columns, "columns");
    plan_give(builder, plan_add_positions(builder, x, major, minor, 8), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_axial_positions(void **state)
{
    (void)state;
    check_axial_positions(20);
    check_axial_positions(24);
}

void test_layer_norm(void **state)
{
    (void)state;
    for (int64_t columns = 1; columns < 200; columns = columns * 3 + 1) {
        struct bench bench;
        const struct tensor_shape shapes[] = {{"gain", 0, columns}, {"bias", 0, columns}};
        struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
        int x = plan_input_rows(builder, "x", columns, 0, PLAN_NONE);
        x = plan_layer_norm(builder, x, plan_vector(builder, columns, "gain"), plan_vector(builder, columns, "bias"),
                            1e-5f);
        plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
        bench_run(&bench);
    }
}

/* The groups have more or fewer columns than one task computes. */
static void check_group_norm(int64_t columns, int64_t groups, bool with_gain, bool with_bias)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"gain", 0, columns}, {"bias", 0, columns}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int gain = plan_vector(builder, columns, "gain"), bias = plan_vector(builder, columns, "bias");
    int x = plan_input_rows(builder, "x", columns, 0, PLAN_NONE);
    x = plan_group_norm(builder, x, groups, with_gain ? gain : PLAN_NONE, with_bias ? bias : PLAN_NONE, 1e-2f);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_group_norm(void **state)
{
    (void)state;
    check_group_norm(1, 1, true, true);
    check_group_norm(12, 12, false, false);
    check_group_norm(40, 8, true, true);
    check_group_norm(96, 2, true, false);
    check_group_norm(150, 1, false, true);
    check_group_norm(330, 110, true, true);
}

/* If products are computed in bf16, the result y of the norm is also stored in bf16. Two products become one step
 * feed_forward. */
static void check_products_of_norm(int64_t columns, int products)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"gain", 0, columns}, {"bias", 0, columns}, {"w", columns, columns}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", columns, 0, PLAN_NONE), w = plan_matrix(builder, columns, columns, "w");
    x = plan_layer_norm(builder, x, plan_vector(builder, columns, "gain"), plan_vector(builder, columns, "bias"),
                        1e-5f);
    for (int i = 0; i < products; i++)
        x = plan_linear(builder, x, w, PLAN_NONE);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_products_of_norm(void **state)
{
    (void)state;
    for (int64_t columns = 1; columns < 200; columns = columns * 3 + 1) {
        check_products_of_norm(columns, 1);
        check_products_of_norm(columns, 2);
    }
}

/* The GELU of `with_gelu` and the addition of `with_residual` are fused into the linear step. */
static void check_linear(int64_t in, int64_t out, bool with_bias, bool with_gelu, bool with_residual)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"first", out, in}, {"second", out, out}, {"bias", 0, out}};
    struct plan_builder *builder = bench_begin(&bench, shapes, with_bias ? 3 : 2);
    int x = plan_input_rows(builder, "x", in, 0, PLAN_NONE);
    int y = plan_linear(builder, x, plan_matrix(builder, out, in, "first"), PLAN_NONE);
    int z = plan_linear(builder, y, plan_matrix(builder, out, out, "second"),
                        with_bias ? plan_vector(builder, out, "bias") : PLAN_NONE);
    if (with_gelu)
        z = plan_activate(builder, z, ACTIVATION_GELU);
    if (with_residual)
        z = plan_add(builder, z, y, 1.0f);
    plan_give(builder, z, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_linear(void **state)
{
    (void)state;
    check_linear(1, 1, false, false, false);
    check_linear(5, 3, true, true, true);
    check_linear(32, 64, true, false, true);
    check_linear(96, 300, true, true, false);
    check_linear(520, 37, false, true, true);
}

void test_values_that_two_steps_read_are_not_fused(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 9, 9}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 9, 0, PLAN_NONE);
    int y = plan_linear(builder, x, plan_matrix(builder, 9, 9, "w"), PLAN_NONE);
    int z = plan_add(builder, plan_activate(builder, y, ACTIVATION_GELU), y,
                     0.5f); /* Two steps read y, so neither may be fused. */
    plan_give(builder, z, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Projects x with E, and attends to the result. Each of the `groups` groups of columns has its own E. */
static void check_projection(int64_t k, int64_t columns, int64_t groups, bool transposed, bool with_bias)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"e", groups * (transposed ? k : 70), transposed ? 70 : k},
                                          {"bias", groups, k}};
    struct plan_builder *builder = bench_begin(&bench, shapes, with_bias ? 2 : 1);
    int x = plan_input_rows(builder, "x", columns, 70, PLAN_NONE);
    struct plan_projection projection = {
        .weight = plan_matrix(builder, shapes[0].rows, shapes[0].columns, "e"),
        .bias = with_bias ? plan_matrix(builder, groups, k, "bias") : PLAN_NONE,
        .groups = groups,
        .transposed = transposed,
    };
    int projected = plan_project_sequence(builder, x, projection);
    int y = plan_attend(builder, x, projected, projected,
                        (struct plan_attention){.heads = 1, .kv_heads = 1, .scale = 0.1f});
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_project_sequence(void **state)
{
    (void)state;
    check_projection(1, 1, 1, false, false);
    check_projection(7, 20, 1, true, true);
    check_projection(32, 65, 1, false, false);
    check_projection(96, 130, 1, true, false);
    check_projection(5, 24, 3, true, true);
    check_projection(9, 140, 2, false, false);
    /* On CUDA, these rows consist of whole packs of 16 bytes. 70 rows are no multiple of the rows of a tile. */
    check_projection(64, 72, 1, false, false);
}

static void check_convolution(int64_t d, int64_t groups, int64_t stride, bool shared)
{
    struct bench bench;
    int64_t weights = shared ? 1 : groups;
    const struct tensor_shape shapes[] = {{"w", weights * d * d, stride}, {"b", weights, d}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", d * groups, 70, PLAN_NONE);
    int y = plan_convolve_sequence(builder, x, plan_matrix(builder, weights * d * d, stride, "w"),
                                   plan_matrix(builder, weights, d, "b"), groups, stride, 70);
    y = plan_attend(builder, x, y, y, (struct plan_attention){.heads = groups, .kv_heads = groups, .scale = 0.05f});
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_convolve_sequence(void **state)
{
    (void)state;
    check_convolution(4, 1, 1, true);
    check_convolution(5, 3, 4, true);
    check_convolution(8, 2, 16, false);
}

void test_shift_tokens(void **state)
{
    (void)state;
    const int64_t both[] = {1, 0, -1}, causal[] = {1, 0};
    for (int64_t columns = 3; columns < 40; columns += 7) {
        struct bench bench;
        struct plan_builder *builder = bench_begin(&bench, NULL, 0);
        int x = plan_input_rows(builder, "x", columns, 0, PLAN_NONE);
        x = plan_shift_tokens(builder, x, 3, both);
        x = plan_shift_tokens(builder, x, 2, causal);
        plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
        bench_run(&bench);
    }
}

/* On CUDA, one kernel computes the norm and the shift if x is read later, and if no pass has changed the plan. With 16
 * columns and elements of 16 bits, a pack of 16 bytes contains a whole segment. */
void test_shift_of_norms(void **state)
{
    (void)state;
    const int64_t both[] = {1, 0, -1};
    for (int64_t columns = 4; columns < 60; columns += 4) {
        struct bench bench;
        const struct tensor_shape shapes[] = {{"gain", 0, columns}, {"bias", 0, columns}};
        struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
        builder->as_built = true;
        int x = plan_input_rows(builder, "x", columns, 0, PLAN_NONE);
        int y = plan_layer_norm(builder, x, plan_vector(builder, columns, "gain"),
                                plan_vector(builder, columns, "bias"), 1e-5f);
        y = plan_add(builder, plan_shift_tokens(builder, y, 3, both), x, 1.0f);
        plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
        bench_run(&bench);
    }
}

/* Two projections in neighbouring steps, with one or several groups, of one or several tiles, with equal or different
 * k. */
void test_two_projections(void **state)
{
    (void)state;
    static const struct fused_projection projections[][2] = {
        {{7, 1, 40, true, true}, {7, 1, 40, true, true}},     {{20, 1, 40, false, false}, {20, 1, 40, false, false}},
        {{96, 1, 40, false, true}, {96, 1, 40, false, true}}, {{9, 3, 40, true, false}, {9, 3, 40, true, false}},
        {{7, 1, 40, true, true}, {12, 1, 40, true, true}},
    };
    for (size_t i = 0; i < COUNT(projections); i++)
        for (int64_t columns = 24; columns <= 150; columns += 126) {
            struct bench bench;
            build_projections(&bench, projections[i][0], projections[i][1], columns);
            bench_run(&bench);
        }
    for (int biases = 0; biases < 8; biases++) {
        struct bench bench;
        build_chains(&bench, (struct fused_projection){8, 1, 40, biases & 1, biases & 2}, biases & 4, biases & 4,
                     false);
        bench_run(&bench);
    }
}

/* The first steps run on padded rows. The padding is cut off before the last steps. */
static void check_rotate_concatenate_gate_cut(int64_t columns)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"table", 80, 6}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", columns, 80, PLAN_NONE);
    int mask = plan_input_mask(builder, "mask", x);
    plan_pad_to_multiple(builder, x, 16);
    int rotated = plan_rotate(builder, x, plan_matrix(builder, 80, 6, "table"));
    int both = plan_concatenate(builder, rotated, x);
    int y = plan_gate(builder, both, (struct plan_activation){.kind = ACTIVATION_GELU});
    y = plan_mask_rows(builder, plan_cut_padding(builder, y), plan_cut_padding(builder, mask));
    int signs = plan_activate_with(builder, x, (struct plan_activation){.kind = ACTIVATION_SIGN}, true);
    signs = plan_activate_with(builder, plan_cut_padding(builder, signs), (struct plan_activation){0}, false);
    plan_give(builder, plan_add(builder, y, signs, 0.5f), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_rotate_concatenate_gate_cut(void **state)
{
    (void)state;
    check_rotate_concatenate_gate_cut(24);
    check_rotate_concatenate_gate_cut(18); /* on CUDA, 18 columns do not consist of whole packs of 16 bytes */
}

/* A reshape moves the elements to rows with another number of columns. The result takes the place of x in memory, or
 * another place if x is read later. */
void test_reshape(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 24, 6}, {"v", 12, 24}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 12, PLAN_NONE);
    int n = plan_size_free(builder, 0, 0, 1, 12), one = plan_size_constant(builder, 1);
    int four = plan_sized_axis(builder, plan_size_multiply(builder, n, plan_size_constant(builder, 4)), one);
    int y = plan_reshape(builder, x, four, 6); /* x is also read at the end */
    y = plan_linear(builder, y, plan_matrix(builder, 24, 6, "w"), PLAN_NONE);
    y = plan_reshape(builder, y, plan_sized_axis(builder, n, one), 96);
    y = plan_reshape(builder, y, four, 24);
    y = plan_linear(builder, y, plan_matrix(builder, 12, 24, "v"), PLAN_NONE);
    y = plan_reshape(builder, y, plan_value_at(builder, x)->axis, 48);
    plan_give(builder, plan_concatenate(builder, y, x), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Pads rows, ids and masks, to a length or to a multiple. The mask of the second linear attention hides only the
 * padding. */
static void check_pad_rows(struct plan_padding padding)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"table", 80, 12}, {"w", 12, 12}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "ids", 80, 70, PLAN_NONE);
    int mask = plan_input_mask(builder, "mask", ids);
    int rows = plan_input_rows_like(builder, "rows", 12, ids, PLAN_NONE);
    int table = plan_matrix(builder, 80, 12, "table");
    int x = plan_linear(builder, rows, plan_matrix(builder, 12, 12, "w"), PLAN_NONE);
    x = plan_pad_rows(builder, x, padding);
    x = plan_add(builder, x, plan_embed(builder, plan_pad_rows(builder, ids, padding), table), 1.0f);
    x = plan_add_positions(builder, x, table, PLAN_NONE, 1);
    struct plan_head_range all = {0, 2, 6};
    int y = plan_linear_attend(builder, x, x, x, plan_pad_mask(builder, mask, x), all, 1);
    y = plan_mask_rows(builder, y, plan_pad_mask(builder, mask, x));
    y = plan_linear_attend(builder, y, x, x, plan_pad_mask(builder, PLAN_NONE, x), all, 1);
    y = plan_attend(builder, y, x, x, (struct plan_attention){.heads = 2, .kv_heads = 2, .scale = 0.4f});
    plan_give(builder, plan_cut_padding(builder, y), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_pad_rows(void **state)
{
    (void)state;
    check_pad_rows((struct plan_padding){.rows = 72});
    check_pad_rows((struct plan_padding){.multiple = 16});
    check_pad_rows((struct plan_padding){.multiple = 1});
}

void test_output_layer(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 700, 24}, {"b", 0, 700}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 0, PLAN_NONE);
    plan_give(builder, x, plan_matrix(builder, 700, 24, "w"), plan_vector(builder, 700, "b"), true);
    bench_run(&bench);
}
