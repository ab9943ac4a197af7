/* Tests of all kinds of attention, and of neighbouring steps that a backend may compute together. */
#include "tests/unit/fused_plans.h"
#include "tests/unit/operation_tests.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* If products are computed in bf16, the result y of the attention is also stored in bf16. */
void test_a_product_can_read_the_result_of_attention(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"keys", 24, 24}, {"out", 10, 24}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 70, PLAN_NONE);
    int keys = plan_linear(builder, x, plan_matrix(builder, 24, 24, "keys"), PLAN_NONE);
    int y = plan_attend(builder, x, keys, keys, (struct plan_attention){.heads = 3, .kv_heads = 3, .scale = 0.1f});
    plan_give(builder, plan_linear(builder, y, plan_matrix(builder, 10, 24, "out"), PLAN_NONE), PLAN_NONE, PLAN_NONE,
              false);
    bench_run(&bench);
}

static void check_attend(int64_t heads, int64_t kv_heads, int64_t dim_head, int64_t k, bool causal)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"e", 60, k}, {"f", 60, k}, {"keys", kv_heads * dim_head, heads * dim_head}};
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

/* Two steps read the same integers. One step makes keys of them, and needs all rows. The other step adds them to the
 * result, and needs only the requested rows. */
static void check_integers(void)
{
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int x = plan_input_rows(builder, "x", 24, 60, PLAN_NONE);
    int signs = plan_activate_with(builder, x, (struct plan_activation){.kind = ACTIVATION_SIGN}, true);
    int keys = plan_activate_with(builder, signs, (struct plan_activation){ACTIVATION_AFFINE, 0.5f, 0.25f}, false);
    int y = plan_attend(builder, x, keys, keys, (struct plan_attention){.heads = 2, .kv_heads = 2, .scale = 0.1f});
    int same = plan_activate_with(builder, signs, (struct plan_activation){.kind = ACTIVATION_NONE}, false);
    plan_give(builder, plan_add(builder, y, same, 0.5f), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_attend(void **state)
{
    (void)state;
    check_integers();
    check_attend(1, 1, 1, 1, false);
    check_attend(4, 4, 8, 16, true);
    check_attend(4, 1, 20, 7, false);
    check_attend(2, 2, 64, 100, true);
    check_attend(6, 3, 17, 33, false);
}

/* There is one key for each row of the item. If key_room is not 0, keys of zeros are added, up to key_room keys. */
static void check_full_attention(bool causal, int64_t key_room)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 24, 24}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 60, PLAN_NONE);
    int keys = plan_linear(builder, x, plan_matrix(builder, 24, 24, "w"), PLAN_NONE);
    struct plan_attention attention = {
        .heads = 3, .kv_heads = 3, .scale = 0.3f, .causal = causal, .key_room = key_room};
    plan_give(builder, plan_attend(builder, x, keys, x, attention), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_full_attention(void **state)
{
    (void)state;
    check_full_attention(false, 0);
    check_full_attention(true, 0);
    check_full_attention(false, 60);
    check_full_attention(true, 60);
}

/* The input is padded to 60 rows. Sinusoids, masked rows and a ReLU follow. Only the results of the item's own rows are
 * compared. */
void test_padded_and_masked(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"frequencies", 0, 10}, {"e", 8, 60}};
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

/* Values and keys may differ in width. A mask covers the keys. The keys are the item's rows if k is 0, otherwise the k
 * rows that the projection E makes. Some items have no mask. */
static void check_masked_attention(int64_t k, int64_t dim_head, int64_t dim_value, float masked_score)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {{"q", 3 * dim_head, 20}, {"v", 3 * dim_value, 20}, {"e", 60, k}};
    struct plan_builder *builder = bench_begin(&bench, shapes, k ? 3 : 2);
    int x = plan_input_rows(builder, "x", 20, 60, PLAN_NONE);
    struct model_input mask = {
        .name = "mask", .kind = INPUT_ATTENTION_MASK, .columns = k, .accepts_floats = true, .accepts_one_row = true};
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

void test_masked_attention(void **state)
{
    (void)state;
    check_masked_attention(0, 8, 8, -1e9f);
    check_masked_attention(0, 5, 19, -INFINITY);
    check_masked_attention(33, 20, 7, -1e9f);
    check_masked_attention(70, 16, 16, -1e9f);
}

/* An item is a call of several sequences. E projects the keys and F the values, and each sequence attends to its own
 * keys. With a tail, the vector t follows the context of each sequence. Some items have a mask. */
static void check_call(int64_t heads, int64_t dim_head, int64_t k, bool with_tail, bool with_zero)
{
    struct bench bench;
    int64_t d = heads * dim_head;
    const struct tensor_shape shapes[] = {{"e", k, 21}, {"f", k, 21}, {"b", 0, k}, {"t", 0, d}};
    struct plan_builder *builder = bench_begin(&bench, shapes, with_tail ? 4 : 3);
    builder->padding = PADDING_EXACT;
    int x = plan_input_rows(builder, "x", d, 0, PLAN_NONE);
    int context = plan_input_rows(builder, "context", d, with_tail ? 20 : 21, PLAN_NONE);
    plan_call_layout(builder, x);
    plan_call_layout(builder, context);
    struct model_input mask = {.name = "mask",
                               .kind = INPUT_ATTENTION_MASK,
                               .columns = k,
                               .accepts_floats = true,
                               .masks_per_sequence = heads};
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

void test_calls(void **state)
{
    (void)state;
    check_call(1, 1, 1, false, false);
    check_call(4, 8, 16, false, true);
    check_call(3, 30, 21, true, false);
    check_call(2, 33, 40, true, true);
    /* On CUDA, the products have more than 64 rows and 64 columns. On a device with one multiprocessor, f32 then
     * computes them in tiles of 128 x 128. */
    check_call(2, 36, 70, false, false);
}

/* The numbers of columns test several cases of the CUDA kernels. A row fits into the registers of a warp, or not. A row
 * consists of whole packs (loads of 16 bytes), or not. A segment of a shift begins within a pack, or not. */
void test_pairs(void **state)
{
    (void)state;
    static const int64_t columns[] = {6, 24, 90, 520, 1100};
    for (int pair = 0; pair < PAIRS; pair++)
        for (size_t i = 0; i < COUNT(columns); i++) {
            struct bench bench;
            build_pair(&bench, (enum fused_pair)pair, columns[i], (i + (size_t)pair) % 2);
            bench_run(&bench);
        }
}

/* The rows also contain a head after the heads that attend, and first_head heads before them. The attention must not
 * read these other heads. If `bucket` is 0, the attention is not causal. */
static void check_linear_attend(struct plan_head_range heads, int64_t bucket, int64_t fold, bool with_context)
{
    struct bench bench;
    int64_t columns = (heads.first_head + heads.heads + 1) * heads.dim_head, multiple = fold * (bucket ? bucket : 1);
    const struct tensor_shape shapes[] = {{"w", columns, columns}};
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

void test_linear_attend(void **state)
{
    (void)state;
    check_linear_attend((struct plan_head_range){0, 1, 1}, 0, 1, false);
    check_linear_attend((struct plan_head_range){1, 2, 8}, 0, 1, false);
    check_linear_attend((struct plan_head_range){0, 3, 17}, 0, 1, true);
    check_linear_attend((struct plan_head_range){2, 1, 40}, 0, 16, false);
    check_linear_attend((struct plan_head_range){0, 1, 5}, 0, 2, false);
}

void test_causal_linear_attend(void **state)
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

void test_causal_attention_to_a_context(void **state)
{
    (void)state;
    struct bench bench;
    struct plan_builder *builder = bench_begin(&bench, NULL, 0);
    int x = plan_input_rows(builder, "x", 8, 80, PLAN_NONE);
    int context = plan_input_rows(builder, "context", 8, 80, PLAN_NONE);
    plan_causal_linear_attend(builder, x, context, context, PLAN_NONE, (struct plan_head_range){0, 1, 8}, 1, 1);
    assert_int_equal(plan_finish(builder, 80, 1, &bench.plan), -1);
    assert_non_null(strstr(bench.error.message, "of the same sequence"));
    bench_end(&bench);
}

static void check_local_attend(struct plan_head_range heads, int64_t window, bool causal)
{
    struct bench bench;
    int64_t columns = (heads.first_head + heads.heads + 1) * heads.dim_head;
    const struct tensor_shape shapes[] = {{"w", columns, columns}};
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

/* The windows of the first two checks have one or two rows. For some rows, all keys are therefore masked. */
void test_local_attend(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        check_local_attend((struct plan_head_range){0, 1, 1}, 1, causal);
        check_local_attend((struct plan_head_range){0, 2, 8}, 2, causal);
        check_local_attend((struct plan_head_range){1, 2, 17}, 7, causal);
        check_local_attend((struct plan_head_range){0, 2, 4}, 80, causal);
    }
}

/* Retrieval chooses the 32 pairs of keys with the largest sums of scores. If two sums are nearly equal, float and
 * double may choose different pairs. The items therefore have only a few rows. With elements of 16 bits, different
 * choices are frequent: one of the 32 pairs differs, with a weight of about 1/32. The tolerance is then larger. */
void test_retrieve(void **state)
{
    (void)state;
    struct bench bench;
    bench_tolerance *= bench_tolerance > EXACT ? 3 : 1;
    const struct tensor_shape shapes[] = {
        {"gain", 0, 9}, {"bias", 0, 9}, {"keys", 3 * 40 * 2, 9}, {"values", 40 * 40, 7}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 2 * 3 * 9, 6, PLAN_NONE);
    x = plan_layer_norm(builder, x, plan_vector(builder, 9, "gain"), plan_vector(builder, 9, "bias"), 1e-5f);
    x = plan_retrieve(builder, x, plan_matrix(builder, 3 * 40 * 2, 9, "keys"),
                      plan_matrix(builder, 40 * 40, 7, "values"), 3);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}
