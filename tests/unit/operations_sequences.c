/* Tests of tensors as inputs and outputs, and of items that consist of several sequences. */
#include "engine/plan/axes.h"
#include "tests/unit/operation_spaces.h"
#include "tests/unit/operation_tests.h"

/* Divides x (n, 2 * columns) into two sequences of n rows. If `back` is set, joins two such sequences to (n, 2 *
 * columns). */
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
    return plan_arrange(builder, value_source(x), plan_add_space(builder, &space), back ? rows : sequences);
}

void test_norm_of_sequences(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"gain", 0, 12}, {"bias", 0, 12}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 40, PLAN_NONE);
    struct sized s = sizes_of(builder, 24);
    int y = plan_group_norm(builder, halves(s, x, 12, false), 3, plan_vector(builder, 12, "gain"),
                            plan_vector(builder, 12, "bias"), 1e-2f);
    plan_give(builder, halves(s, y, 12, true), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

/* A space counts the rows of an item, not the rows of a sequence. The steps are a softmax, cumulative sums along the
 * columns, and a product with a weight. */
void test_space_of_sequences(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 12, 12}};
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
    const struct tensor_shape shapes[] = {{"w", 12, 12 / groups * 3}, {"b", 0, 12}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", 24, 40, PLAN_NONE);
    struct sized s = sizes_of(builder, 24);
    int y = convolve_rows(builder, halves(s, x, 12, false), plan_matrix(builder, 12, 12 / groups * 3, "w"),
                          plan_vector(builder, 12, "b"), 3, 2, groups);
    plan_give(builder, halves(s, y, 12, true), PLAN_NONE, PLAN_NONE, false);
    bench_run(&bench);
}

void test_convolve_sequences(void **state)
{
    (void)state;
    check_convolve_sequences(1);
    check_convolve_sequences(4);
    check_convolve_sequences(12);
}

/* The inputs are tensors of floats, of ids and of a mask. The first output contains floats, the second ids. */
void test_give_tensor(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"table", 7, 12}, {"w", 20, 12}};
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

/* A plan reads the same ids as rows of four ids, and as single ids. */
void test_reshape_ids(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"table", 7, 12}};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int h = plan_size_free(builder, 0, 0, 1, 9), one = plan_size_constant(builder, 1);
    int of_ids[] = {h, plan_size_constant(builder, 4)}, of_y[] = {h, of_ids[1], plan_size_constant(builder, 12)};
    int ids = plan_input_tensor(builder, "ids", INPUT_IDS, 7, 2, of_ids, 1);
    plan_add_output(builder, "y", 3, of_y);
    plan_add_output(builder, "ids", 2, of_ids);
    int fours = plan_reshape(builder, ids, plan_sized_axis(builder, h, one), 4);
    plan_give_tensor(builder, plan_embed(builder, ids, plan_matrix(builder, 7, 12, "table")), 0);
    plan_give_tensor(builder, fours, 1);
    bench_run(&bench);
}

/* Adds the input x (k, l, columns): k sequences of l = 4 n rows. Writes the three sizes. */
static int folded_input(struct plan_builder *builder, int64_t columns, int *sizes)
{
    sizes[0] = plan_size_free(builder, 0, 0, 1, 5);
    sizes[1] = plan_size_multiply(builder, plan_size_constant(builder, 4), plan_size_free(builder, 1, 0, 1, 5));
    sizes[2] = plan_size_constant(builder, columns);
    int x = plan_input_tensor(builder, "x", INPUT_ROWS, 0, 3, sizes, columns);
    int quarter = plan_size_free(builder, 1, 0, 1, 5); /* the second input only determines n */
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

void test_folded_positions(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"positions", 20, 12}, {"frequencies", 0, 6}, {"angles", 20, 4}};
    static const int64_t shifts[] = {1, 0, -1};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int sizes[3], x = folded_input(builder, 12, sizes);
    x = plan_add_positions(builder, x, plan_matrix(builder, 20, 12, "positions"), PLAN_NONE, 1);
    x = plan_add_sinusoids(builder, x, plan_vector(builder, 6, "frequencies"));
    x = plan_rotate(builder, x, plan_matrix(builder, 20, 4, "angles"));
    x = plan_shift_tokens(builder, x, 3, shifts);
    run_folded(&bench, x, 3, sizes);
}

/* Linformer's attention over several sequences. The pass re-associate moves the linear step behind the projection for
 * long sequences, but not for short sequences. */
static void check_folded_attention(bool causal, int64_t groups)
{
    struct bench bench;
    const struct tensor_shape shapes[] = {
        {"q", 24, 24}, {"k", 24, 24}, {"e", 20 * groups, 6}, {"o", 24, 24}, {"b", 0, 24}};
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

void test_folded_attention(void **state)
{
    (void)state;
    check_folded_attention(false, 1);
    check_folded_attention(true, 1);
    check_folded_attention(false, 4);
}

void test_folded_linear_and_local_attention(void **state)
{
    (void)state;
    struct bench bench;
    struct plan_head_range all = {0, 2, 8};
    const struct tensor_shape shapes[] = {{"unused", 0, 1}};
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

/* A convolution reduces each sequence to a fixed number of rows. The rows of the sequence, and rows of padding, follow
 * these rows. */
void test_folded_convolve_append_pad(void **state)
{
    (void)state;
    struct bench bench;
    const struct tensor_shape shapes[] = {{"w", 8, 32}, {"b", 1, 8}};
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
