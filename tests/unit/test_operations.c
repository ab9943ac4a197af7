/* Every operation on a backend, compared with the scalar reference in double precision, over random batches with items
 * of different lengths. If the backend is batch invariant, an item alone must have the same bits. SEED chooses the
 * random numbers. */
#include "engine/plan/axes.h"
#include "engine/plan/operations.h"
#include "engine/plan/sizes.h"
#include "tests/unit/fused_plans.h"
#include "tests/unit/operation_bench.h"
#include "tests/unit/tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef KERNELS
#define KERNELS SET_AUTO /* test_operations_avx2.c and _baseline.c are this file with others */
#endif

#ifndef PRODUCTS
#define PRODUCTS LIBRARY_AUTO /* test_operations_bf16_onednn.c */
#endif

#ifndef DEVICE
#define DEVICE DEVICE_CPU /* tests/cuda/test_operations_cuda.c */
#endif

#ifndef DTYPE
#define DTYPE DTYPE_F32 /* test_operations_bf16.c, here and in tests/cuda, and others */
#endif

#define EXACT 1e-5 /* the tolerance of float */

#define COUNT(shapes) (sizeof(shapes) / sizeof *(shapes))

/* ---- One test an operation ---- */

static void test_embed_and_positions(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"table", 7, 33}, {"positions", 40, 33}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "x", 7, 40, PLAN_NONE);
    int x = plan_embed(builder, ids, plan_matrix(builder, 7, 33, "table"));
    x = plan_add_positions(builder, x, plan_matrix(builder, 40, 33, "positions"), PLAN_NONE, 1);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_axial_positions(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"rows", 5, 20}, {"columns", 8, 20}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 20, 40, PLAN_NONE);
    x = plan_add_positions(builder, x, plan_matrix(builder, 5, 20, "rows"), plan_matrix(builder, 8, 20, "columns"), 8);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_layer_norm(void **state)
{
    (void)state;
    for (int64_t columns = 1; columns < 200; columns = columns * 3 + 1) {
        struct bench bench;
        const struct shape shapes[] = {{"gain", 0, columns}, {"bias", 0, columns}};
        struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
        int x = plan_input_rows(builder, "x", columns, 0, PLAN_NONE);
        x = plan_layer_norm(builder, x, plan_vector(builder, columns, "gain"), plan_vector(builder, columns, "bias"),
                            1e-5f);
        plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
        bench_run(&bench);
    }
}

/* Groups of more columns than a task has, and of fewer. */
static void check_group_norm(int64_t columns, int64_t groups, bool with_gain, bool with_bias)
{
    struct bench bench;
    const struct shape shapes[] = {{"gain", 0, columns}, {"bias", 0, columns}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int gain = plan_vector(builder, columns, "gain"), bias = plan_vector(builder, columns, "bias");
    int x = plan_input_rows(builder, "x", columns, 0, PLAN_NONE);
    x = plan_group_norm(builder, x, groups, with_gain ? gain : PLAN_NONE, with_bias ? bias : PLAN_NONE, 1e-2f);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_group_norm(void **state)
{
    (void)state;
    check_group_norm(1, 1, true, true);
    check_group_norm(12, 12, false, false);
    check_group_norm(40, 8, true, true);
    check_group_norm(96, 2, true, false);
    check_group_norm(150, 1, false, true);
    check_group_norm(330, 110, true, true);
}

/* Where products are in bf16, so is the norm's y. Two products are one feed_forward. */
static void check_products_of_norm(int64_t columns, int products)
{
    struct bench bench;
    const struct shape shapes[] = {{"gain", 0, columns}, {"bias", 0, columns}, {"w", columns, columns}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", columns, 0, PLAN_NONE), w = plan_matrix(builder, columns, columns, "w");
    x = plan_layer_norm(builder, x, plan_vector(builder, columns, "gain"), plan_vector(builder, columns, "bias"),
                        1e-5f);
    for (int i = 0; i < products; i++)
        x = plan_linear(builder, x, w, PLAN_NONE);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_products_of_norm(void **state)
{
    (void)state;
    for (int64_t columns = 1; columns < 200; columns = columns * 3 + 1) {
        check_products_of_norm(columns, 1);
        check_products_of_norm(columns, 2);
    }
}

/* `with_gelu` and `with_residual` are fused into the linear step. */
static void check_linear(int64_t in, int64_t out, bool with_bias, bool with_gelu, bool with_residual)
{
    struct bench bench;
    const struct shape shapes[] = {{"first", out, in}, {"second", out, out}, {"bias", 0, out}};
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

static void test_linear(void **state)
{
    (void)state;
    check_linear(1, 1, false, false, false);
    check_linear(5, 3, true, true, true);
    check_linear(32, 64, true, false, true);
    check_linear(96, 300, true, true, false);
    check_linear(520, 37, false, true, true);
}

static void test_fusion_leaves_read_values(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"w", 9, 9}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 9, 0, PLAN_NONE);
    int y = plan_linear(builder, x, plan_matrix(builder, 9, 9, "w"), PLAN_NONE);
    int z = plan_add(builder, plan_activate(builder, y, ACTIVATION_GELU), y,
                     0.5f); /* y is read twice: neither step may be fused away */
    plan_give(builder, z, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Through E and an attention over what it gives, with E for all columns or for each group of them. */
static void check_projection(int64_t k, int64_t columns, int64_t groups, bool transposed, bool with_bias)
{
    struct bench bench;
    const struct shape shapes[] = {{"e", groups * (transposed ? k : 70), transposed ? 70 : k}, {"bias", groups, k}};
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

static void test_project_sequence(void **state)
{
    (void)state;
    check_projection(1, 1, 1, false, false);
    check_projection(7, 20, 1, true, true);
    check_projection(32, 65, 1, false, false);
    check_projection(96, 130, 1, true, false);
    check_projection(5, 24, 3, true, true);
    check_projection(9, 140, 2, false, false);
}

/* Where products are in bf16, so is y of the attention. */
static void test_product_of_attention(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"keys", 24, 24}, {"out", 10, 24}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 70, PLAN_NONE);
    int keys = plan_linear(builder, x, plan_matrix(builder, 24, 24, "keys"), PLAN_NONE);
    int y = plan_attend(builder, x, keys, keys, (struct plan_attention){.heads = 3, .kv_heads = 3, .scale = 0.1f});
    plan_give(builder, plan_linear(builder, y, plan_matrix(builder, 10, 24, "out"), PLAN_NONE), PLAN_NONE, PLAN_NONE,
              false);
    bench_run(&bench);
}

static void check_convolution(int64_t d, int64_t groups, int64_t stride, bool shared)
{
    struct bench bench;
    int64_t weights = shared ? 1 : groups;
    const struct shape shapes[] = {{"w", weights * d * d, stride}, {"b", weights, d}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", d * groups, 70, PLAN_NONE);
    int y = plan_convolve_sequence(builder, x, plan_matrix(builder, weights * d * d, stride, "w"),
                                   plan_matrix(builder, weights, d, "b"), groups, stride, 70);
    y = plan_attend(builder, x, y, y, (struct plan_attention){.heads = groups, .kv_heads = groups, .scale = 0.05f});
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_convolve_sequence(void **state)
{
    (void)state;
    check_convolution(4, 1, 1, true);
    check_convolution(5, 3, 4, true);
    check_convolution(8, 2, 16, false);
}

static void check_attend(int64_t heads, int64_t kv_heads, int64_t dim_head, int64_t k, bool causal)
{
    struct bench bench;
    const struct shape shapes[] = {{"e", 60, k}, {"f", 60, k}, {"keys", kv_heads * dim_head, heads * dim_head}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", heads * dim_head, 60, PLAN_NONE);
    int context = plan_input_rows(builder, "context", heads * dim_head, 60, 0);
    int keys =
        plan_linear(builder, context, plan_matrix(builder, kv_heads * dim_head, heads * dim_head, "keys"), PLAN_NONE);
    struct plan_projection e = {.weight = plan_matrix(builder, 60, k, "e"), .bias = PLAN_NONE, .groups = 1}, f = e;
    f.weight = plan_matrix(builder, 60, k, "f");
    int values = plan_project_sequence(builder, keys, f);
    keys = plan_project_sequence(builder, keys, e);
    struct plan_attention attention = {.heads = heads, .kv_heads = kv_heads, .scale = 0.02f, .causal = causal};
    plan_give(builder, plan_attend(builder, x, keys, values, attention), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_attend(void **state)
{
    (void)state;
    check_attend(1, 1, 1, 1, false);
    check_attend(4, 4, 8, 16, true);
    check_attend(4, 1, 20, 7, false);
    check_attend(2, 2, 64, 100, true);
    check_attend(6, 3, 17, 33, false);
}

/* Keys as long as the item, then, with room for more, as if zeros followed them. */
static void check_full_attention(bool causal, int64_t key_room)
{
    struct bench bench;
    const struct shape shapes[] = {{"w", 24, 24}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 60, PLAN_NONE);
    int keys = plan_linear(builder, x, plan_matrix(builder, 24, 24, "w"), PLAN_NONE);
    struct plan_attention attention = {
        .heads = 3, .kv_heads = 3, .scale = 0.3f, .causal = causal, .key_room = key_room};
    plan_give(builder, plan_attend(builder, x, keys, x, attention), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_full_attention(void **state)
{
    (void)state;
    check_full_attention(false, 0);
    check_full_attention(true, 0);
    check_full_attention(false, 60);
    check_full_attention(true, 60);
}

/* Padded to 60 rows, with sinusoids, masked rows and a ReLU: results are those of the item's own rows. */
static void test_padded_and_masked(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"frequencies", 0, 10}, {"e", 8, 60}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 20, 60, PLAN_NONE);
    int mask = plan_input_mask(builder, "mask", x);
    plan_pad(builder, x, 60);
    int y = plan_add_sinusoids(builder, x, plan_vector(builder, 10, "frequencies"));
    int keys = plan_mask_rows(builder, plan_activate(builder, y, ACTIVATION_RELU), mask);
    struct plan_projection e = {
        .weight = plan_matrix(builder, 8, 60, "e"), .bias = PLAN_NONE, .groups = 1, .transposed = true};
    keys = plan_project_sequence(builder, keys, e);
    y = plan_attend(builder, y, keys, keys, (struct plan_attention){.heads = 2, .kv_heads = 2, .scale = 0.3f});
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Values of another width than keys, and a mask over keys as many as the item's rows, or as E gives; some items have no
 * mask. */
static void check_masked_attention(int64_t k, int64_t dim_head, int64_t dim_value, float masked_score)
{
    struct bench bench;
    const struct shape shapes[] = {{"q", 3 * dim_head, 20}, {"v", 3 * dim_value, 20}, {"e", 60, k}};
    struct plan_builder *builder = bench_begin(&bench, shapes, k ? 3 : 2);
    int x = plan_input_rows(builder, "x", 20, 60, PLAN_NONE);
    struct model_input mask = {
        .name = "mask", .kind = INPUT_ATTENTION_MASK, .columns = k, .takes_floats = true, .takes_one_row = true};
    struct plan_attention attention = {.heads = 3, .kv_heads = 3, .scale = 0.1f, .masked = true};
    attention.masked_score = masked_score;
    attention.mask = plan_input_beside(builder, mask, x);
    int queries = plan_linear(builder, x, plan_matrix(builder, 3 * dim_head, 20, "q"), PLAN_NONE), keys = queries;
    int values = plan_linear(builder, x, plan_matrix(builder, 3 * dim_value, 20, "v"), PLAN_NONE);
    if (k) {
        struct plan_projection e = {.weight = plan_matrix(builder, 60, k, "e"), .bias = PLAN_NONE, .groups = 1};
        keys = plan_project_sequence(builder, keys, e);
        values = plan_project_sequence(builder, values, e);
    }
    int y = plan_attend(builder, queries, keys, values, attention);
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_masked_attention(void **state)
{
    (void)state;
    check_masked_attention(0, 8, 8, -1e9f);
    check_masked_attention(0, 5, 19, -INFINITY);
    check_masked_attention(33, 20, 7, -1e9f);
    check_masked_attention(70, 16, 16, -1e9f);
}

/* Calls of several sequences through E and F and an attention within each, with a mask where there is no tail. */
static void check_call(int64_t heads, int64_t dim_head, int64_t k, bool with_tail, bool with_zero)
{
    struct bench bench;
    int64_t d = heads * dim_head;
    const struct shape shapes[] = {{"e", k, 21}, {"f", k, 21}, {"b", 0, k}, {"t", 0, d}};
    struct plan_builder *builder = bench_begin(&bench, shapes, with_tail ? 4 : 3);
    builder->padding = PADDING_EXACT;
    int x = plan_input_rows(builder, "x", d, 0, PLAN_NONE);
    int context = plan_input_rows(builder, "context", d, with_tail ? 20 : 21, PLAN_NONE);
    plan_call_layout(builder, x);
    plan_call_layout(builder, context);
    struct model_input mask = {
        .name = "mask", .kind = INPUT_ATTENTION_MASK, .columns = k, .takes_floats = true, .n_masks = heads};
    struct plan_attention attention = {.heads = heads,
                                       .kv_heads = heads,
                                       .scale = 0.05f,
                                       .key_room = with_zero ? k + 1 : 0,
                                       .masked = true,
                                       .masked_score = -INFINITY};
    attention.mask = plan_input_beside(builder, mask, x);
    int bias = plan_vector(builder, k, "b"), tail = with_tail ? plan_vector(builder, d, "t") : PLAN_NONE;
    int keys = plan_project_call(builder, context, plan_matrix(builder, k, 21, "e"), bias, tail);
    int values = plan_project_call(builder, context, plan_matrix(builder, k, 21, "f"), bias, tail);
    plan_give(builder, plan_attend_call(builder, x, keys, values, attention), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_calls(void **state)
{
    (void)state;
    check_call(1, 1, 1, false, false);
    check_call(4, 8, 16, false, true);
    check_call(3, 30, 21, true, false);
    check_call(2, 33, 40, true, true);
}

static void test_shift_tokens(void **state)
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

/* ---- Steps that a backend may do in one go ---- */

/* Of one part and of several; of one tile and of several; that differ in k. */
static void test_two_projections(void **state)
{
    (void)state;
    static const struct projected projections[][2] = {
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
        build_chains(&bench, (struct projected){8, 1, 40, biases & 1, biases & 2}, biases & 4, biases & 4, false);
        bench_run(&bench);
    }
}

/* Rows that a warp keeps in registers, and longer ones; of whole packs, of segments that begin within one, and others.
 */
static void test_pairs(void **state)
{
    (void)state;
    static const int64_t columns[] = {6, 24, 90, 520, 1100};
    for (int pair = 0; pair < PAIRS; pair++)
        for (size_t i = 0; i < COUNT(columns); i++) {
            struct bench bench;
            build_pair(&bench, (enum pair)pair, columns[i], (i + (size_t)pair) % 2);
            bench_run(&bench);
        }
}

/* Heads before and after the attending heads exist, and must not be read. `bucket` 0: not causal. */
static void check_linear_attend(struct plan_head_range heads, int64_t bucket, int64_t fold, bool with_context)
{
    struct bench bench;
    int64_t columns = (heads.first_head + heads.heads + 1) * heads.dim_head, multiple = fold * (bucket ? bucket : 1);
    const struct shape shapes[] = {{"w", columns, columns}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", columns, 80 / multiple * multiple, PLAN_NONE);
    int source = with_context ? plan_input_rows(builder, "context", columns, 80, PLAN_NONE) : x;
    int mask = plan_input_mask(builder, "mask", source);
    if (multiple > 1)
        plan_pad_to_multiple(builder, x, multiple);
    int values = plan_linear(builder, source, plan_matrix(builder, columns, columns, "w"), PLAN_NONE);
    int y = bucket ? plan_causal_linear_attend(builder, x, source, values, mask, heads, fold, bucket)
                   : plan_linear_attend(builder, x, source, values, mask, heads, fold);
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_linear_attend(void **state)
{
    (void)state;
    check_linear_attend((struct plan_head_range){0, 1, 1}, 0, 1, false);
    check_linear_attend((struct plan_head_range){1, 2, 8}, 0, 1, false);
    check_linear_attend((struct plan_head_range){0, 3, 17}, 0, 1, true);
    check_linear_attend((struct plan_head_range){2, 1, 40}, 0, 16, false);
    check_linear_attend((struct plan_head_range){0, 1, 5}, 0, 2, false);
}

static void test_causal_linear_attend(void **state)
{
    (void)state;
    check_linear_attend((struct plan_head_range){0, 2, 8}, 1, 1, false);
    check_linear_attend((struct plan_head_range){1, 2, 5}, 3, 1, false);
    check_linear_attend((struct plan_head_range){0, 1, 16}, 8, 1, false);
    check_linear_attend((struct plan_head_range){0, 2, 4}, 1, 8, false);
    check_linear_attend((struct plan_head_range){0, 2, 9}, 40, 1, false);
    check_linear_attend((struct plan_head_range){0, 2, 9}, 70, 1, false);
    check_linear_attend((struct plan_head_range){0, 1, 40}, 1, 1, false);
    check_linear_attend((struct plan_head_range){0, 1, 70}, 5, 1, false);
}

static void test_causal_attention_to_a_context(void **state)
{
    (void)state;
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int x = plan_input_rows(builder, "x", 8, 80, PLAN_NONE);
    int context = plan_input_rows(builder, "context", 8, 80, PLAN_NONE);
    plan_causal_linear_attend(builder, x, context, context, PLAN_NONE, (struct plan_head_range){0, 1, 8}, 1, 1);
    assert_int_equal(plan_finish(builder, 80, 1, &bench.plan), -1);
    assert_non_null(strstr(bench.error.message, "within one sequence"));
    bench_end(&bench);
}

static void check_local_attend(struct plan_head_range heads, int64_t window, bool causal)
{
    struct bench bench;
    int64_t columns = (heads.first_head + heads.heads + 1) * heads.dim_head;
    const struct shape shapes[] = {{"w", columns, columns}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", columns, 80 / window * window, PLAN_NONE);
    int mask = plan_input_mask(builder, "mask", x);
    if (window > 1)
        plan_pad_to_multiple(builder, x, window);
    int values = plan_linear(builder, x, plan_matrix(builder, columns, columns, "w"), PLAN_NONE);
    plan_give(builder, plan_local_attend(builder, x, x, values, mask, heads, window, causal), PLAN_NONE, PLAN_NONE,
              false);
    bench_run(&bench);
}

/* The windows of one or two rows leave some rows without a key that is not masked. */
static void test_local_attend(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        check_local_attend((struct plan_head_range){0, 1, 1}, 1, causal);
        check_local_attend((struct plan_head_range){0, 2, 8}, 2, causal);
        check_local_attend((struct plan_head_range){1, 2, 17}, 7, causal);
        check_local_attend((struct plan_head_range){0, 2, 4}, 80, causal);
    }
}

/* Few rows: where two sums are as good as equal, float and double choose differently. Elements of 16 bits often do: of
 * the 32 pairs one is then another, whose weight is about a 32nd. */
static void test_retrieve(void **state)
{
    (void)state;
    struct bench bench;
    bench_tolerance *= bench_tolerance > EXACT ? 3 : 1;
    const struct shape shapes[] = {{"gain", 0, 9}, {"bias", 0, 9}, {"keys", 3 * 40 * 2, 9}, {"values", 40 * 40, 7}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 2 * 3 * 9, 6, PLAN_NONE);
    x = plan_layer_norm(builder, x, plan_vector(builder, 9, "gain"), plan_vector(builder, 9, "bias"), 1e-5f);
    x = plan_retrieve(builder, x, plan_matrix(builder, 3 * 40 * 2, 9, "keys"),
                      plan_matrix(builder, 40 * 40, 7, "values"), 3);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* On padded rows, whose results are cut off before the last step. */
static void test_rotate_concatenate_gate_cut(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"table", 80, 6}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 80, PLAN_NONE);
    int mask = plan_input_mask(builder, "mask", x);
    plan_pad_to_multiple(builder, x, 16);
    int rotated = plan_rotate(builder, x, plan_matrix(builder, 80, 6, "table"));
    int both = plan_concatenate(builder, rotated, x);
    int y = plan_gate(builder, both, (struct plan_activation){.kind = ACTIVATION_GELU});
    y = plan_mask_rows(builder, plan_cut_padding(builder, y), plan_cut_padding(builder, mask));
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Elements in rows of other columns: in x's place, and beside it where x is read again. */
static void test_reshape(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"w", 24, 6}, {"v", 12, 24}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 12, PLAN_NONE);
    int n = plan_size_free(builder, 0, 0, 1, 12), one = plan_size_constant(builder, 1);
    int four = plan_sized_axis(builder, plan_size_multiply(builder, n, plan_size_constant(builder, 4)), one);
    int y = plan_reshape(builder, x, four, 6); /* x is read below */
    y = plan_linear(builder, y, plan_matrix(builder, 24, 6, "w"), PLAN_NONE);
    y = plan_reshape(builder, y, plan_sized_axis(builder, n, one), 96);
    y = plan_reshape(builder, y, four, 24);
    y = plan_linear(builder, y, plan_matrix(builder, 12, 24, "v"), PLAN_NONE);
    y = plan_reshape(builder, y, plan_value_at(builder, x)->axis, 48);
    plan_give(builder, plan_concatenate(builder, y, x), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Rows, ids and masks that a step pads, to a length or to a multiple; one attention has no mask of its own. */
static void check_pad_rows(struct plan_padding padding)
{
    struct bench bench;
    const struct shape shapes[] = {{"table", 80, 12}, {"w", 12, 12}};
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

static void test_pad_rows(void **state)
{
    (void)state;
    check_pad_rows((struct plan_padding){.rows = 72});
    check_pad_rows((struct plan_padding){.multiple = 16});
    check_pad_rows((struct plan_padding){.multiple = 1});
}

/* A convolution of an image, from `in` to `out` channels. */
static void check_convolve_image(int64_t in, int64_t out, struct plan_window window, int64_t groups, bool keeps_pixels)
{
    struct bench bench;
    int64_t depth = in / groups * window.size[0] * window.size[1];
    const struct shape shapes[] = {{"w", out, depth}, {"b", 0, out}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_image(builder, "x", in), bias = plan_vector(builder, out, "b");
    struct plan_convolution convolution = {.weight = plan_matrix(builder, out, depth, "w"),
                                           .bias = out % 2 ? bias : PLAN_NONE,
                                           .window = window,
                                           .groups = groups,
                                           .height = PLAN_NONE,
                                           .scale = out % 3 ? 0.7f : 1.0f,
                                           .keeps_pixels = keeps_pixels};
    plan_give_image(builder, plan_convolve_image(builder, x, convolution));
    bench_run(&bench);
}

#define ALONE \
    {         \
        1, 1  \
    } /* dilation */

/* The windows that keep an image's pixels do so for some sizes only: 2 x 2, 2 x 3 … and 3 x 1, 4 x 2 … */
static void test_convolve_image(void **state)
{
    (void)state;
    check_convolve_image(1, 1, (struct plan_window){{1, 1}, {1, 1}, {0, 0}, {0, 0}, ALONE}, 1, true);
    check_convolve_image(5, 3, (struct plan_window){{3, 3}, {1, 1}, {1, 1}, {1, 1}, ALONE}, 1, true);
    check_convolve_image(20, 300, (struct plan_window){{2, 4}, {1, 1}, {0, 1}, {1, 2}, ALONE}, 1, true);
    check_convolve_image(4, 33, (struct plan_window){{5, 3}, {2, 3}, {2, 0}, {2, 0}, ALONE}, 1, false);
    check_convolve_image(3, 7, (struct plan_window){{1, 2}, {1, 2}, {2, 3}, {2, 3}, ALONE}, 1, false);
    check_convolve_image(3, 7, (struct plan_window){{7, 1}, {1, 1}, {0, 0}, {0, 0}, ALONE}, 1, false);
    check_convolve_image(9, 5, (struct plan_window){{1, 1}, {2, 2}, {1, 1}, {1, 1}, ALONE}, 1, true);
    check_convolve_image(9, 5, (struct plan_window){{3, 1}, {1, 1}, {0, 1}, {0, 1}, ALONE}, 1, true);
    check_convolve_image(6, 5, (struct plan_window){{3, 2}, {1, 1}, {2, 0}, {2, 0}, {2, 3}}, 1, false);
    check_convolve_image(6, 5, (struct plan_window){{3, 2}, {2, 1}, {2, 1}, {2, 1}, {3, 1}}, 1, false);
}

/* Groups of some columns, and of one: as many outputs as there are inputs, or more. */
static void test_convolve_groups(void **state)
{
    (void)state;
    check_convolve_image(6, 9, (struct plan_window){{3, 3}, {1, 1}, {1, 1}, {1, 1}, ALONE}, 3, true);
    check_convolve_image(40, 10, (struct plan_window){{2, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 2}}, 2, false);
    check_convolve_image(5, 5, (struct plan_window){{3, 3}, {1, 1}, {1, 1}, {1, 1}, ALONE}, 5, true);
    check_convolve_image(90, 90, (struct plan_window){{3, 3}, {2, 2}, {2, 2}, {2, 2}, {2, 2}}, 90, false);
    check_convolve_image(11, 33, (struct plan_window){{1, 5}, {1, 1}, {0, 2}, {0, 2}, ALONE}, 11, true);
}

/* nn.Conv1d over a sequence whose length is a size: an image of height 1. Windows of `kernel` rows. */
static int convolve_rows(struct plan_builder *builder, int x, int weight, int bias, int64_t kernel, int64_t dilation,
                         int64_t groups)
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

static void check_convolve_rows(int64_t in, int64_t out, int64_t kernel, int64_t dilation, int64_t groups)
{
    struct bench bench;
    const struct shape shapes[] = {{"w", out, in / groups * kernel}, {"b", 0, out}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", in, 85, PLAN_NONE);
    x = convolve_rows(builder, x, plan_matrix(builder, out, in / groups * kernel, "w"), plan_vector(builder, out, "b"),
                      kernel, dilation, groups);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_convolve_rows(void **state)
{
    (void)state;
    check_convolve_rows(20, 30, 3, 1, 1);
    check_convolve_rows(20, 30, 1, 1, 1);
    check_convolve_rows(12, 6, 4, 2, 2);
    check_convolve_rows(150, 150, 7, 1, 150);
}

/* ImageLinearAttention's steps: keys and values of the image and of what may be given beside it. */
static void check_image_attention(int64_t heads, int64_t key_dim, int64_t value_dim, bool with_context,
                                  bool softmax_queries)
{
    struct bench bench;
    const struct plan_window window = {{1, 3}, {1, 1}, {0, 1}, {0, 1}, ALONE};
    int64_t keys_out = heads * key_dim, values_out = heads * value_dim;
    const struct shape shapes[] = {
        {"k", keys_out, 18}, {"v", values_out, 18}, {"kb", 0, keys_out}, {"vb", 0, values_out}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_image(builder, "x", 6);
    int context = with_context ? plan_input_pixels(builder, "context", 6, NULL) : PLAN_NONE;
    struct plan_convolution to_k = {.weight = plan_matrix(builder, keys_out, 18, "k"),
                                    .bias = plan_vector(builder, keys_out, "kb"),
                                    .window = window,
                                    .groups = 1,
                                    .height = PLAN_NONE,
                                    .scale = 0.6f,
                                    .keeps_pixels = true};
    struct plan_convolution to_v = to_k;
    to_v.weight = plan_matrix(builder, values_out, 18, "v");
    to_v.bias = plan_vector(builder, values_out, "vb");
    int queries = plan_convolve_image(builder, x, to_k), keys = queries, values = plan_convolve_image(builder, x, to_v);
    if (with_context) {
        to_k.keeps_pixels = to_v.keeps_pixels = false;
        to_k.scale = to_v.scale = 1.0f;
        keys = plan_append_rows(builder, keys, plan_convolve_image(builder, context, to_k));
        values = plan_append_rows(builder, values, plan_convolve_image(builder, context, to_v));
    }
    plan_give_image(builder, plan_image_linear_attend(builder, queries, keys, values, heads, softmax_queries));
    bench_run(&bench);
}

static void test_image_attention(void **state)
{
    (void)state;
    check_image_attention(1, 1, 1, false, true);
    check_image_attention(3, 8, 8, true, true);
    check_image_attention(3, 17, 5, false, false);
    check_image_attention(2, 7, 40, false, true);
    check_image_attention(4, 5, 5, true, false);
}

/* ---- Operations over a space ---- */

#define LONGEST 85 /* rows of an item */
#define FEW 20     /* rows of an item of many columns */

/* Sizes of an item (n, columns), and of one number. */
struct sized {
    struct plan_builder *builder;
    int n, columns, one, zero;
};

static struct sized sizes_of(struct plan_builder *builder, int64_t columns)
{
    return (struct sized){builder, plan_size_free(builder, 0, 0, 1, LONGEST), plan_size_constant(builder, columns),
                          plan_size_constant(builder, 1), plan_size_constant(builder, 0)};
}

static struct plan_source value_of(int value)
{
    return (struct plan_source){value, PLAN_NONE, 0};
}

static struct plan_source weight_source(int weight)
{
    return (struct plan_source){PLAN_NONE, weight, 0};
}

static struct plan_source number_of(float number)
{
    return (struct plan_source){PLAN_NONE, PLAN_NONE, number};
}

/* Like the value: its axis and columns. */
static struct plan_target like(struct plan_builder *builder, int value)
{
    const struct plan_value *of = plan_value_at(builder, value);
    return (struct plan_target){of->axis, of->columns, of->ids, PLAN_NONE};
}

/* All elements of y (n, columns). The strides of the others are given, by rows and by columns. */
static int space_of_rows(struct sized s, int x_row, int x_column, int z_row, int z_column, int c_row, int c_column)
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

/* x (n, a, b) -> dense y with the dimensions in another order. */
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
    return plan_arrange(builder, value_of(x), plan_add_space(builder, &space), like(builder, x));
}

/* Large values are divided among threads; few columns make short runs. */
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

static void test_permute(void **state)
{
    (void)state;
    check_permutations(4, 5);
    check_permutations(3, 1);
    check_permutations(8, 64);
}

/* `columns` of x's columns from `from` on -> the columns of y from `to` on. A step of its own, so y may be begun. */
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

/* y: columns of a value, a weight and a number, written by four steps. Other values are made between them, which must
 * not lie where y does. */
static void test_arrange_parts(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"w", 0, 9}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 20, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, 20);
    struct plan_target y = like(builder, x);
    y.value = copy_columns(s, value_of(x), 11, 0, 6, y);
    int other = plan_activate(builder, x, ACTIVATION_RELU);
    copy_columns(s, weight_source(plan_vector(builder, 9, "w")), 2, 6, 7, y);
    other = plan_add(builder, other, x, 0.5f);
    copy_columns(s, number_of(-2.5f), 0, 13, 3, y);
    copy_columns(s, value_of(other), 3, 16, 4, y);
    plan_give(builder, plan_add(builder, y.value, other, 1.0f), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* A row before each of n rows, and the sequence twice: another axis. Then the rows from the end back. */
static void test_arrange_rows(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"w", 0, 24}};
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
    plan_arrange(builder, value_of(x), plan_add_space(builder, &rest), y);
    int last = plan_size_subtract(builder, plan_size_multiply(builder, each, two), s.columns);
    struct plan_space back = {
        .rank = 2,
        .dimensions = {{s.n, plan_size_constant(builder, -24), 0, 0, s.columns}, {s.columns, s.one, 0, 0, s.one}},
        .x_first = last,
        .y_first = s.zero};
    int z = plan_arrange(builder, value_of(y.value), plan_add_space(builder, &back), like(builder, x));
    plan_give(builder, z, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Ids from the end back, the first of them another one; then their rows of a table. */
static void test_arrange_ids(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"table", 9, 16}};
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
    y.value = plan_arrange(builder, value_of(ids), plan_add_space(builder, &back), y);
    plan_arrange(builder, number_of(8), plan_add_space(builder, &first), y);
    int x = plan_embed(builder, y.value, plan_matrix(builder, 9, 16, "table"));
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

enum layout_of_z { Z_LIKE_X, Z_VECTOR, Z_POSITIONS, Z_NUMBER, Z_OF_ROW, Z_KINDS };

static void check_combine(int64_t columns, enum layout_of_z kind, enum plan_function function, bool z_first)
{
    struct bench bench;
    const struct shape shapes[] = {{"w", 0, columns}, {"positions", LONGEST, columns}, {"column", 1, columns}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", columns, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, columns);
    int row = s.zero, column = s.one;
    struct plan_source z = value_of(plan_activate(builder, x, ACTIVATION_GELU));
    int weights[] = {plan_vector(builder, columns, "w"), plan_matrix(builder, LONGEST, columns, "positions"),
                     plan_matrix(builder, 1, columns, "column")};
    if (kind == Z_VECTOR)
        z = weight_source(weights[0]);
    if (kind == Z_POSITIONS)
        z = weight_source(weights[1]);
    if (kind == Z_NUMBER)
        z = number_of(-0.75f);
    if (kind == Z_OF_ROW) {
        z = value_of(plan_linear(builder, x, weights[2], PLAN_NONE));
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

static void test_combine(void **state)
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

/* y (n, 6) = numbers that bf16 has, none of which is 0. */
static int numbers(struct sized s, int axis)
{
    struct plan_target y = {axis, 6, false, PLAN_NONE};
    for (int c = 0; c < 6; c++)
        y.value = copy_columns(s, number_of(0.5f * (float)c - 1.25f), 0, c, 1, y);
    return y.value;
}

/* Each function of quarters (n, 6) and of the numbers above. Ids are operands, too. */
static void check_function(enum plan_function function, bool z_first)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE), axis = plan_value_at(builder, ids)->axis;
    struct sized s = sizes_of(builder, 6);
    int z = numbers(s, axis), dense = space_of_rows(s, s.columns, s.one, s.columns, s.one, s.zero, s.zero);
    struct plan_target y = {axis, 6, false, PLAN_NONE};
    int of_ids = space_of_rows(s, s.one, s.zero, s.zero, s.zero, s.zero, s.zero);
    int x = plan_combine(builder, FUNCTION_MULTIPLY, ids, number_of(0.25f), false, of_ids, y);
    if (z_first || function == FUNCTION_POWER) /* neither 0 nor below */
        x = plan_combine(builder, FUNCTION_ADD, x, number_of(0.25f), false, dense, y);
    if (function == FUNCTION_POWER && z_first)
        z = plan_combine(builder, FUNCTION_ADD, z, number_of(2), false, dense, y);
    int made = plan_combine(builder, function, x, value_of(z), z_first, dense, y);
    int mixed = space_of_rows(s, s.columns, s.one, s.one, s.zero, s.zero, s.zero);
    made = plan_combine(builder, FUNCTION_ADD, made, value_of(ids), false, mixed, y);
    plan_give(builder, made, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_functions(void **state)
{
    (void)state;
    for (int f = 0; f < FUNCTION_COUNT; f++) {
        check_function((enum plan_function)f, false);
        check_function((enum plan_function)f, true);
    }
}

/* Where ids are above 2: x, or a weight; else a number. Then where they are not 0, by row. */
static void test_select(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"w", 0, 6}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE), axis = plan_value_at(builder, ids)->axis;
    struct sized s = sizes_of(builder, 6);
    struct plan_target y = {axis, 6, false, PLAN_NONE};
    int z = numbers(s, axis), of_ids = space_of_rows(s, s.one, s.zero, s.columns, s.one, s.zero, s.zero);
    int condition = plan_combine(builder, FUNCTION_LESS, ids, number_of(2.5f), true, of_ids, y);
    int space = space_of_rows(s, s.zero, s.one, s.columns, s.one, s.columns, s.one);
    int first = plan_select(builder, condition, weight_source(plan_vector(builder, 6, "w")), value_of(z), space, y);
    space = space_of_rows(s, s.columns, s.one, s.zero, s.zero, s.one, s.zero);
    int second = plan_select(builder, ids, value_of(first), number_of(7.5f), space, y);
    space = space_of_rows(s, s.zero, s.zero, s.one, s.zero, s.columns, s.one);
    int third = plan_select(builder, condition, number_of(-3), value_of(ids), space, y);
    plan_give(builder, plan_add(builder, second, third, 1.0f), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Ids where they are not 0, else the id 8. */
static void test_select_ids(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"table", 9, 16}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, 1);
    int space = space_of_rows(s, s.one, s.one, s.zero, s.zero, s.one, s.one);
    int chosen = plan_select(builder, ids, value_of(ids), number_of(8), space, like(builder, ids));
    plan_give(builder, plan_embed(builder, chosen, plan_matrix(builder, 9, 16, "table")), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* ---- Functions of one number ---- */

static bool is_smooth(enum activation kind)
{
    return kind <= ACTIVATION_ABSOLUTE || kind == ACTIVATION_SIN || kind == ACTIVATION_COS || kind == ACTIVATION_ERF;
}

/* Numbers that bf16 has, between 0 and 4 and not 0, made of ids. So functions with steps are computed of the same ones
 * everywhere, and logarithms and roots are finite. */
static void check_activation(struct plan_activation activation)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE);
    int x = plan_activate_with(builder, ids, (struct plan_activation){ACTIVATION_AFFINE, 0.5f, 0.25f}, false);
    plan_give(builder, plan_activate_with(builder, x, activation, false), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_activations(void **state)
{
    (void)state;
    for (int kind = 0; kind < ACTIVATION_COUNT; kind++)
        check_activation((struct plan_activation){(enum activation)kind, 0.25f, 1.5f});
}

enum epilogue_place { WITH_RESIDUAL, BETWEEN_PRODUCTS, IN_A_GATE, EPILOGUE_PLACES };

static void check_epilogue(struct plan_activation activation, enum epilogue_place place)
{
    struct bench bench;
    const struct shape shapes[] = {{"w", 40, 19}, {"b", 0, 40}, {"u", 19, 20}, {"v", 19, 40}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 19, LONGEST, PLAN_NONE), w = plan_matrix(builder, 40, 19, "w");
    int bias = plan_vector(builder, 40, "b"), u = plan_matrix(builder, 19, 20, "u");
    int v = plan_matrix(builder, 19, 40, "v"), y = plan_linear(builder, x, w, bias);
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

/* Softplus has a step where a x is b. No product comes near 50, so that rounding cannot lead across it. */
static void test_epilogues(void **state)
{
    (void)state;
    for (int kind = 0; kind < ACTIVATION_COUNT; kind++) {
        struct plan_activation activation = {(enum activation)kind, 0.5f, kind == ACTIVATION_SOFTPLUS ? 25 : 1.25f};
        for (int place = 0; is_smooth((enum activation)kind) && place < EPILOGUE_PLACES; place++)
            check_epilogue(activation, (enum epilogue_place)place);
    }
}

/* Each function is within the product: the plan has no step for it. */
static void test_every_activation_is_fused(void **state)
{
    (void)state;
    for (int kind = 1; kind < ACTIVATION_COUNT; kind++) {
        struct bench bench;
        const struct shape shapes[] = {{"w", 8, 8}};
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

/* Ids computed of floats and of ids. Those outside of the table give rows of NaN, which are replaced by a number. */
static void test_computed_ids(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"table", 5, 16}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int ids = plan_input_ids(builder, "x", 7, LONGEST, PLAN_NONE);
    struct sized s = sizes_of(builder, 16);
    int x = plan_activate_with(builder, ids, (struct plan_activation){ACTIVATION_AFFINE, 1.5f, -2.5f}, false);
    int computed = plan_activate_with(builder, x, (struct plan_activation){.kind = ACTIVATION_NONE}, true);
    int y = plan_embed(builder, computed, plan_matrix(builder, 5, 16, "table"));
    int lost = plan_activate(builder, y, ACTIVATION_IS_NAN);
    int dense = space_of_rows(s, s.zero, s.zero, s.columns, s.one, s.columns, s.one);
    y = plan_select(builder, lost, number_of(-7), value_of(y), dense, like(builder, y));
    struct plan_activation huge = {ACTIVATION_AFFINE, 1e9f, 0};
    int far = plan_activate_with(builder, plan_activate_with(builder, ids, huge, true), huge, true);
    far = plan_activate(builder, plan_embed(builder, far, plan_matrix(builder, 5, 16, "table")), ACTIVATION_IS_NAN);
    plan_give(builder, plan_add(builder, y, far, 1.0f), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* ---- Reductions and products over a space ---- */

/* Which elements of x (n, a * b) become one. */
enum reduced { REDUCED_B, REDUCED_A, REDUCED_ROWS, REDUCED_ROWS_AND_B, REDUCED_WINDOWS, REDUCED_KINDS };

/* A value that has one row an item, added to all rows of x: a value on x's axis. */
static int add_row(struct sized s, int x, int row)
{
    int space = space_of_rows(s, s.columns, s.one, s.zero, s.one, s.zero, s.zero);
    return plan_combine(s.builder, FUNCTION_ADD, x, value_of(row), false, space, like(s.builder, x));
}

static void check_reduce(enum plan_reduction reduction, float parameter, enum reduced reduced, int64_t a, int64_t b)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int x = plan_input_rows(builder, "x", a * b, a * b > 32 ? FEW : LONGEST, PLAN_NONE);
    int axis = plan_value_at(builder, x)->axis;
    struct sized s = sizes_of(builder, a * b);
    if (reduced == REDUCED_ROWS ||
        reduced == REDUCED_ROWS_AND_B) /* the output's softmax makes much of a large sum's error */
        x = plan_add(builder, x, x, 0.005f);
    if (reduction == REDUCTION_PRODUCT) /* as it does of a large product's */
        x = plan_add(builder, x, x, 0.25f);
    if (reduction == REDUCTION_SUM && b > 100) /* a sum near 0 has the errors of all its numbers */
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
    case REDUCED_ROWS_AND_B: /* y (1, a * b), with each result b times */
        y.axis = plan_sized_axis(builder, one, one);
        y.columns = a * b;
        space.dimensions[0] = (struct plan_dimension){of_a, of_b, 0, 0, of_b};
        space.dimensions[1] = (struct plan_dimension){of_b, one, 0, 0, one};
        space.dimensions[2] = (struct plan_dimension){s.n, s.columns, 0, 0, zero};
        break;
    case REDUCED_WINDOWS: /* y (n, b - 2): windows of 3 columns, which overlap, of each of a */
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

static void test_reduce(void **state)
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

/* Sums along the rows and along the columns. */
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

static void test_cumulate(void **state)
{
    (void)state;
    check_cumulate(9, false);
    check_cumulate(9, true);
    check_cumulate(140, true);
}

/* Of ids, which are few, so the largest is there several times: along the rows, by one, and side by side. */
static void test_argmax(void **state)
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
    int x = plan_combine(builder, FUNCTION_EQUAL, ids, number_of(3), false, copies, wide);
    struct plan_space columns = {.rank = 2,
                                 .dimensions = {{four, s.one, 0, 0, s.one}, {s.n, four, 0, 0, s.zero}},
                                 .x_first = s.zero,
                                 .y_first = s.zero};
    int equal = plan_reduce(builder, REDUCTION_ARGMAX, x, plan_add_space(builder, &columns), 1, 0,
                            (struct plan_target){first, 4, false, PLAN_NONE});
    int both = space_of_rows(s, s.zero, s.one, s.zero, s.zero, s.zero, s.zero);
    int y = plan_combine(builder, FUNCTION_SUBTRACT, equal, value_of(largest), false, both, wide);
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* Over groups of b columns, over a columns that are b apart, and over rows; then to places that are not dense. */
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

static void test_softmax(void **state)
{
    (void)state;
    for (int logarithm = 0; logarithm < 2; logarithm++) {
        check_softmax(3, 5, logarithm);
        check_softmax(1, 140, logarithm);
        check_softmax(70, 2, logarithm);
    }
}

/* The dense matrices of x (n, heads * d), by strides: rows of a head; or transposed; or neither dense. */
enum matrices { MATRICES_BY_ROWS, MATRICES_BY_COLUMNS, MATRICES_SPREAD, MATRICES_KINDS };

/* Scores (n, heads, LONGEST_PRODUCT) = x zᵀ for each head, of which an item has n; then scores times x: (n, heads, d).
 */
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
    int made = plan_multiply(builder, x, value_of(z), scale, plan_add_space(builder, &first), scores);
    struct plan_space second = {.rank = 4,
                                .dimensions = {{h, room, of_h, 0, of_h},
                                               {s.n, row, one, 0, s.columns},
                                               {dim, one, of_d, 0, of_d},
                                               {s.n, column, s.columns, 0, zero}},
                                .x_first = zero,
                                .z_first = zero,
                                .y_first = zero};
    made = plan_multiply(builder, made, value_of(x), 1.0f, plan_add_space(builder, &second), like(builder, x));
    plan_give(builder, made, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* By a weight, of more rows than a task and a tile have: y (n, out) = x W, with the columns of x backwards if `spread`.
 */
static void check_multiply_weight(int64_t in, int64_t out, bool spread)
{
    struct bench bench;
    const struct shape shapes[] = {{"w", in, out}};
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

/* Small scales: sums that cancel leave errors of their largest terms. */
static void test_multiply(void **state)
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

/* ---- Items that are several sequences ---- */

/* x (n, 2 * columns): two sequences of n rows, and back. */
static int halves(struct sized s, int x, int64_t columns, bool back)
{
    struct plan_builder *builder = s.builder;
    int two = plan_size_constant(builder, 2), half = plan_size_constant(builder, columns);
    int sequence = plan_size_multiply(builder, s.n, half);
    struct plan_target sequences = {plan_sized_axis(builder, s.n, two), columns, false, PLAN_NONE};
    struct plan_target rows = {plan_value_at(builder, 0)->axis, 2 * columns, false, PLAN_NONE};
    const struct plan_dimension of_halves = {two, half, 0, 0, sequence}, of_rows = {s.n, s.columns, 0, 0, half};
    struct plan_space space = {.rank = 3,
                               .dimensions = {of_halves, of_rows, {half, s.one, 0, 0, s.one}},
                               .x_first = s.zero,
                               .y_first = s.zero};
    for (int i = 0; i < 2 && back; i++) {
        int stride = space.dimensions[i].x;
        space.dimensions[i].x = space.dimensions[i].y;
        space.dimensions[i].y = stride;
    }
    return plan_arrange(builder, value_of(x), plan_add_space(builder, &space), back ? rows : sequences);
}

static void test_norm_of_sequences(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"gain", 0, 12}, {"bias", 0, 12}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 40, PLAN_NONE);
    struct sized s = sizes_of(builder, 24);
    int y = plan_group_norm(builder, halves(s, x, 12, false), 3, plan_vector(builder, 12, "gain"),
                            plan_vector(builder, 12, "bias"), 1e-2f);
    plan_give(builder, halves(s, y, 12, true), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* A space knows an item's rows, not its sequences: softmax, sums along the columns, and a product with a weight. */
static void test_space_of_sequences(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"w", 12, 12}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 40, PLAN_NONE), w = plan_matrix(builder, 12, 12, "w");
    struct sized s = sizes_of(builder, 24);
    int rows = plan_size_add(builder, s.n, s.n), twelve = plan_size_constant(builder, 12), one = s.one, zero = s.zero;
    struct plan_space dense = {.rank = 2,
                               .dimensions = {{rows, twelve, zero, zero, twelve}, {twelve, one, zero, zero, one}},
                               .x_first = zero,
                               .y_first = zero};
    struct plan_space product = {
        .rank = 3,
        .dimensions = {{rows, twelve, zero, 0, twelve}, {twelve, zero, one, 0, one}, {twelve, one, twelve, 0, zero}},
        .x_first = zero,
        .z_first = zero,
        .y_first = zero};
    int y = halves(s, x, 12, false), space = plan_add_space(builder, &dense);
    struct plan_target to = like(builder, y);
    y = plan_softmax(builder, y, space, false, to);
    y = plan_reduce(builder, REDUCTION_CUMULATE, y, space, 1, 0, to);
    y = plan_multiply(builder, y, weight_source(w), 1.0f, plan_add_space(builder, &product), to);
    plan_give(builder, halves(s, y, 12, true), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void check_convolve_sequences(int64_t groups)
{
    struct bench bench;
    const struct shape shapes[] = {{"w", 12, 12 / groups * 3}, {"b", 0, 12}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 40, PLAN_NONE);
    struct sized s = sizes_of(builder, 24);
    int y = convolve_rows(builder, halves(s, x, 12, false), plan_matrix(builder, 12, 12 / groups * 3, "w"),
                          plan_vector(builder, 12, "b"), 3, 2, groups);
    plan_give(builder, halves(s, y, 12, true), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

static void test_convolve_sequences(void **state)
{
    (void)state;
    check_convolve_sequences(1);
    check_convolve_sequences(4);
    check_convolve_sequences(12);
}

static void test_output_layer(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"w", 700, 24}, {"b", 0, 700}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 0, PLAN_NONE);
    plan_give(builder, x, plan_matrix(builder, 700, 24, "w"), plan_vector(builder, 700, "b"), true);
    bench_run(&bench);
}

/* Tensors in and out, of floats, ids and a mask; the second output is ids. */
static void test_give_tensor(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"table", 7, 12}, {"w", 20, 12}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int h = plan_size_free(builder, 0, 0, 1, 9), w = plan_size_free(builder, 0, 1, 2, 9);
    int of_x[] = {h, w, plan_size_constant(builder, 12)}, of_y[] = {plan_size_constant(builder, 20), h, w};
    int x = plan_input_tensor(builder, "x", INPUT_ROWS, 0, 3, of_x, 12);
    int ids = plan_input_tensor(builder, "ids", INPUT_IDS, 7, 2, of_x, 1);
    int mask = plan_input_tensor(builder, "mask", INPUT_MASK, 0, 2, of_x, 1);
    x = plan_add(builder, x, plan_embed(builder, ids, plan_matrix(builder, 7, 12, "table")), 1.0f);
    x = plan_linear(builder, plan_mask_rows(builder, x, mask), plan_matrix(builder, 20, 12, "w"), PLAN_NONE);
    plan_add_output(builder, "y", 3, of_y);
    plan_add_output(builder, "ids", 2, of_x);
    plan_give_tensor(builder, x, 0);
    plan_give_tensor(builder, ids, 1);
    bench_run(&bench);
}

/* ---- Several sequences an item ---- */

/* x (k, l, columns) of which an item is k sequences; l is 4 * n. */
static int folded_input(struct plan_builder *builder, int64_t columns, int *sizes)
{
    sizes[0] = plan_size_free(builder, 0, 0, 1, 5);
    sizes[1] = plan_size_multiply(builder, plan_size_constant(builder, 4), plan_size_free(builder, 1, 0, 1, 5));
    sizes[2] = plan_size_constant(builder, columns);
    int x = plan_input_tensor(builder, "x", INPUT_ROWS, 0, 3, sizes, columns);
    int quarter = plan_size_free(builder, 1, 0, 1, 5); /* the second input is there for its length */
    plan_input_tensor(builder, "quarter", INPUT_ROWS, 0, 1, &quarter, 1);
    builder->plan->values[x].axis = plan_sized_axis(builder, sizes[1], sizes[0]);
    return x;
}

static void run_folded(struct bench *bench, int y, int rank, const int *sizes)
{
    plan_add_output(&bench->builder, "y", rank, sizes);
    plan_give_tensor(&bench->builder, y, 0);
    bench_run(bench);
}

static void test_folded_positions(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"positions", 20, 12}, {"frequencies", 0, 6}, {"angles", 20, 4}};
    static const int64_t shifts[] = {1, 0, -1};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int sizes[3], x = folded_input(builder, 12, sizes);
    x = plan_add_positions(builder, x, plan_matrix(builder, 20, 12, "positions"), PLAN_NONE, 1);
    x = plan_add_sinusoids(builder, x, plan_vector(builder, 6, "frequencies"));
    x = plan_rotate(builder, x, plan_matrix(builder, 20, 4, "angles"));
    x = plan_shift_tokens(builder, x, 3, shifts);
    run_folded(&bench, x, 3, sizes);
}

/* Linformer's attention. Short sequences are projected behind the linear step, long ones before it. */
static void check_folded_attention(bool causal, int64_t groups)
{
    struct bench bench;
    const struct shape shapes[] = {{"q", 24, 24}, {"k", 24, 24}, {"e", 20 * groups, 6}, {"o", 24, 24}, {"b", 0, 24}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int sizes[3], x = folded_input(builder, 24, sizes);
    struct plan_projection e = {
        .weight = plan_matrix(builder, 20 * groups, 6, "e"), .bias = PLAN_NONE, .groups = groups};
    int keys = plan_linear(builder, x, plan_matrix(builder, 24, 24, "k"), plan_vector(builder, 24, "b"));
    keys = plan_project_sequence(builder, keys, e);
    int y = plan_linear(builder, x, plan_matrix(builder, 24, 24, "q"), PLAN_NONE);
    y = plan_attend(builder, y, keys, keys,
                    (struct plan_attention){.heads = 4, .kv_heads = 4, .scale = 0.3f, .causal = causal});
    y = plan_add(builder, plan_linear(builder, y, plan_matrix(builder, 24, 24, "o"), PLAN_NONE), x, 1.0f);
    run_folded(&bench, y, 3, sizes);
}

static void test_folded_attention(void **state)
{
    (void)state;
    check_folded_attention(false, 1);
    check_folded_attention(true, 1);
    check_folded_attention(false, 4);
}

static void test_folded_linear_and_local_attention(void **state)
{
    (void)state;
    struct bench bench;
    struct plan_head_range all = {0, 2, 8};
    const struct shape shapes[] = {{"unused", 0, 1}};
    struct plan_builder *builder = bench_begin(&bench, shapes, 1);
    int sizes[3], x = folded_input(builder, 16, sizes);
    plan_vector(builder, 1, "unused");
    int y = plan_linear_attend(builder, x, x, x, PLAN_NONE, all, 1);
    y = plan_add(builder, y, plan_linear_attend(builder, x, x, x, PLAN_NONE, all, 2), 1.0f);
    y = plan_add(builder, y, plan_causal_linear_attend(builder, x, x, x, PLAN_NONE, all, 1, 4), 1.0f);
    y = plan_add(builder, y, plan_local_attend(builder, x, x, x, PLAN_NONE, all, 4, false), 1.0f);
    y = plan_add(builder, y, plan_local_attend(builder, x, x, x, PLAN_NONE, all, 2, true), 1.0f);
    run_folded(&bench, y, 3, sizes);
}

/* A sequence becomes a fixed number of rows, to which its own rows are appended, with zeros behind. */
static void test_folded_convolve_append_pad(void **state)
{
    (void)state;
    struct bench bench;
    const struct shape shapes[] = {{"w", 8, 32}, {"b", 1, 8}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int sizes[3], x = folded_input(builder, 16, sizes);
    int made =
        plan_convolve_sequence(builder, x, plan_matrix(builder, 8, 32, "w"), plan_matrix(builder, 1, 8, "b"), 2, 4, 20);
    int y = plan_append_rows(builder, made, x);
    int padded = plan_pad_rows(builder, y, (struct plan_padding){.multiple = 8});
    y = plan_cut_padding(builder, plan_activate(builder, padded, ACTIVATION_GELU));
    sizes[1] = plan_size_add(builder, sizes[1], plan_size_constant(builder, 5));
    run_folded(&bench, y, 3, sizes);
}

/* ---- Over all operations ---- */

static void test_every_operation_has_its_facts(void **state)
{
    (void)state;
    for (int i = 0; i < OP_COUNT; i++) {
        const char *lack = operation_lack((enum operation)i), *name = operation_name((enum operation)i);
        if (lack)
            fail_msg("operation %d (%s) has no %s in engine/plan/operations.c", i, name ? name : "no name", lack);
        for (int other = 0; other < i; other++)
            if (strcmp(operation_name((enum operation)other), name) == 0)
                fail_msg("operations %d and %d are both named %s", other, i, name);
        if (!bench_has_kernel((enum operation)i))
            fail_msg("the %s engine has no kernel for the operation %s", DEVICE == DEVICE_CPU ? "cpu" : "cuda", name);
    }
}

/* Runs after the other tests. If the processor lacks these kernels, all of them were skipped. */
static void test_every_operation_was_run(void **state)
{
    (void)state;
    if (bench_untried(OP_GIVE_OUTPUT))
        skip();
    for (int i = 0; i < OP_COUNT; i++) {
        const char *untried = bench_untried((enum operation)i);
        if (untried)
            fail_msg("no test above %s the operation %s", untried, operation_name((enum operation)i));
    }
}

static bool has_all_but_activate(enum operation operation)
{
    return operation != OP_ACTIVATE;
}

static void test_an_operation_without_a_kernel_is_refused(void **state)
{
    (void)state;
    const struct backend_functions lacking = {.name = "lacking", .has_operation = has_all_but_activate};
    struct plan_step steps[] = {{.operation = OP_ADD}, {.operation = OP_ACTIVATE}};
    struct plan plan = {.steps = steps, .n_steps = 1};
    struct error error = {0};
    assert_int_equal(backend_check_operations(&lacking, &plan, &error), 0);
    plan.n_steps = 2;
    assert_int_equal(backend_check_operations(&lacking, &plan, &error), -1);
    assert_string_equal(error.message, "the lacking engine lacks the operation activate");
}

/* Twice the largest error of SEEDs 1 to 24 with products in bf16: numbers with 8 bits. Where scores of 10 are off by
 * 0.04, so are the weights that their exponentials are. Where the CPU computes in float, EXACT. */
static int choose_tolerance(void **state)
{
    (void)state;
#ifdef TOLERANCE
    bench_tolerance = TOLERANCE;
#else
    bench_tolerance = DTYPE == DTYPE_BF16 ? *(const double *)*state : EXACT;
#endif
    return 0;
}

#define TEST(name, in_bf16) cmocka_unit_test_prestate_setup_teardown(name, choose_tolerance, NULL, &(double){in_bf16})

int main(void)
{
    bench_options.device.kind = DEVICE;
    bench_options.dtype = DTYPE;
    bench_options.kernels = KERNELS;
    bench_options.products = PRODUCTS;
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20261120;
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_give_tensor),
        cmocka_unit_test(test_folded_positions),
        cmocka_unit_test(test_folded_attention),
        cmocka_unit_test(test_folded_linear_and_local_attention),
        cmocka_unit_test(test_folded_convolve_append_pad),
        cmocka_unit_test(test_every_operation_has_its_facts),
        cmocka_unit_test(test_an_operation_without_a_kernel_is_refused),
        TEST(test_embed_and_positions, EXACT),
        TEST(test_axial_positions, EXACT),
        TEST(test_layer_norm, EXACT),
        TEST(test_group_norm, EXACT),
        TEST(test_products_of_norm, 2.6e-2),
        TEST(test_product_of_attention, 0.04),
        TEST(test_linear, 2.6e-2),
        TEST(test_fusion_leaves_read_values, 2e-2),
        TEST(test_project_sequence, 1.4e-1),
        TEST(test_convolve_sequence, 2e-2),
        TEST(test_attend, 1.2e-1),
        TEST(test_full_attention, 3.2e-2),
        TEST(test_padded_and_masked, 2.4e-2),
        TEST(test_masked_attention, 2.4e-2),
        TEST(test_calls, 1.7e-2),
        TEST(test_shift_tokens, EXACT),
        TEST(test_pairs, 3e-4),
        TEST(test_two_projections, 4.5e-2),
        TEST(test_linear_attend, 4e-2),
        TEST(test_causal_linear_attend, 1.7e-2),
        TEST(test_causal_attention_to_a_context, EXACT),
        TEST(test_local_attend, 3.8e-2),
        TEST(test_retrieve, EXACT),
        TEST(test_reshape, 2e-2),
        TEST(test_rotate_concatenate_gate_cut, 1.2e-3),
        TEST(test_pad_rows, 2e-2),
        TEST(test_convolve_image, 3.2e-2),
        TEST(test_convolve_groups, 3.2e-2),
        TEST(test_convolve_rows, 3.2e-2),
        TEST(test_image_attention, 1.3e-2),
        TEST(test_permute, EXACT),
        TEST(test_arrange_parts, EXACT),
        TEST(test_arrange_rows, EXACT),
        TEST(test_arrange_ids, EXACT),
        TEST(test_combine, 2e-2),
        TEST(test_functions, EXACT),
        TEST(test_select, EXACT),
        TEST(test_select_ids, EXACT),
        TEST(test_activations, 3e-4),
        TEST(test_epilogues, 2.9e-2),
        TEST(test_every_activation_is_fused, EXACT),
        TEST(test_computed_ids, EXACT),
        TEST(test_reduce, EXACT),
        TEST(test_cumulate, EXACT),
        TEST(test_argmax, EXACT),
        TEST(test_softmax, EXACT),
        TEST(test_multiply, 1e-3),
        TEST(test_norm_of_sequences, EXACT),
        TEST(test_space_of_sequences, EXACT),
        TEST(test_convolve_sequences, 3.2e-2),
        TEST(test_output_layer, 8e-3),
        cmocka_unit_test(test_every_operation_was_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
