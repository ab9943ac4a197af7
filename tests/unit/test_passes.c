/* Tests of the passes, which rewrite plans. The tests build random plans like those of models. The results on a backend
 * are compared with the same plans without passes in double precision. If the backend is batch invariant, the bits of
 * an item's result must not depend on its other results, or on other items. The plans contain all operations, except
 * those that not_drawn lists with reasons. SEED chooses the plans. */
#include "engine/backend.h"
#include "engine/plan/axes.h"
#include "engine/plan/sizes.h"
#include "tests/unit/loaded.h"
#include "tests/unit/scalar.h"
#include "tests/unit/tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef DEVICE
#define DEVICE DEVICE_CPU /* tests/cuda/test_passes_cuda.c defines another value */
#endif

static const struct backend_functions *functions;

#define PLANS 40
#define MAX_ITEMS 5
#define MAX_ROWS 1024 /* maximum number of rows of a batch, even on an axis that joins two axes */
#define MAX_LENGTH 90
#define COLUMNS 24     /* columns of x */
#define VOCABULARY 37  /* columns of the output layer */
#define TOLERANCE 2e-5 /* maximum error, divided by max(0.3, largest |value| of a result) */

static uint64_t seed;
static bool is_in_a_plan[OP_COUNT]; /* by operation: whether a plan contained it, with or without passes */

/* ---- Random plans. Each plan is built twice, from the same random numbers. ---- */

struct maker {
    struct plan_builder *builder;
    int pool; /* one large weight. All weights of a plan are parts of it */
    int mask; /* the value of the mask */
    int64_t length;
    bool nines; /* the number of rows of an item is a multiple of nine */
};

static bool one_in(int64_t n)
{
    return random_size(1, n) == 1;
}

static int weight(struct maker *maker, int64_t rows, int64_t columns)
{
    return plan_slice_weight(maker->builder, maker->pool, random_size(0, 1 << 15), rows, columns);
}

static int some_bias(struct maker *maker, int64_t columns)
{
    return one_in(2) ? weight(maker, 1, columns) : PLAN_NONE;
}

static int linear(struct maker *maker, int x, int64_t in, int64_t out)
{
    return plan_linear(maker->builder, x, weight(maker, out, in), some_bias(maker, out));
}

static int norm(struct maker *maker, int x)
{
    return plan_layer_norm(maker->builder, x, weight(maker, 1, COLUMNS), weight(maker, 1, COLUMNS), 1e-2f);
}

static struct plan_projection projection(struct maker *maker, int64_t groups, int64_t k)
{
    bool transposed = one_in(2);
    int64_t n = maker->length, rows = groups * (transposed ? k : n), columns = transposed ? n : k;
    return (struct plan_projection){
        .weight = weight(maker, rows, columns),
        .bias = one_in(2) ? weight(maker, groups, k) : PLAN_NONE,
        .groups = groups,
        .transposed = transposed,
    };
}

/* Adds an attention in which E projects the keys and F the values. E and F may be the same. Some rows may be masked. */
static int project_and_attend(struct maker *maker, int queries, int keys, int values, int64_t heads)
{
    struct plan_builder *builder = maker->builder;
    int64_t groups = one_in(3) ? heads : 1, k = random_size(1, 20);
    struct plan_projection e = projection(maker, groups, k), f = one_in(2) ? e : projection(maker, groups, k);
    if (one_in(2)) {
        keys = plan_mask_rows(builder, keys, maker->mask);
        values = plan_mask_rows(builder, values, maker->mask);
    }
    keys = plan_project_sequence(builder, keys, e);
    values = one_in(4) ? keys : plan_project_sequence(builder, values, f);
    return plan_attend(builder, queries, keys, values,
                       (struct plan_attention){.heads = heads, .kv_heads = heads, .scale = 0.5f, .causal = one_in(2)});
}

static int attention(struct maker *maker, int x)
{
    struct plan_builder *builder = maker->builder;
    int64_t heads = random_size(1, 3), dim_head = random_size(1, 12), columns = heads * dim_head;
    struct plan_head_range all = {0, heads, dim_head};
    int queries = linear(maker, x, COLUMNS, columns), keys = linear(maker, x, COLUMNS, columns), out;
    int values = linear(maker, x, COLUMNS, columns);
    switch (random_size(0, 4)) {
    case 0:
        out = plan_linear_attend(builder, queries, keys, values, maker->mask, all, 1);
        break;
    case 1:
        out = plan_causal_linear_attend(builder, queries, keys, values, maker->mask, all, 1, 1);
        break;
    case 2: /* full attention */
        out =
            plan_attend(builder, queries, keys, values,
                        (struct plan_attention){.heads = heads, .kv_heads = heads, .scale = 0.5f, .causal = one_in(2)});
        break;
    default:
        out = project_and_attend(maker, queries, keys, values, heads);
        break;
    }
    return linear(maker, out, columns, COLUMNS);
}

/* ---- Operations that the layers below do not contain. Each function adds one, and returns a value with as many
 * columns as x ---- */

static int rotate(struct maker *maker, int x)
{
    return plan_rotate(maker->builder, x, weight(maker, MAX_LENGTH, one_in(2) ? COLUMNS : COLUMNS / 2));
}

static int add_positions(struct maker *maker, int x)
{
    if (one_in(2))
        return plan_add_positions(maker->builder, x, weight(maker, MAX_LENGTH, COLUMNS), PLAN_NONE, 1);
    int major = weight(maker, MAX_LENGTH / 9, COLUMNS), minor = weight(maker, 9, COLUMNS);
    return plan_add_positions(maker->builder, x, major, minor, 9);
}

static int group_norm(struct maker *maker, int x)
{
    int gain = weight(maker, 1, COLUMNS), bias = weight(maker, 1, COLUMNS);
    return plan_group_norm(maker->builder, x, random_size(1, 3), gain, bias, 1e-2f);
}

static int add_sinusoids(struct maker *maker, int x)
{
    return plan_add_sinusoids(maker->builder, x, weight(maker, 1, COLUMNS / 2));
}

/* The embedding reads the mask as ids. */
static int embed(struct maker *maker, int x)
{
    return plan_add(maker->builder, x, plan_embed(maker->builder, maker->mask, weight(maker, 2, COLUMNS)), 1.0f);
}

static int concatenate(struct maker *maker, int x)
{
    int both = plan_concatenate(maker->builder, x, norm(maker, x));
    return linear(maker, both, 2 * COLUMNS, COLUMNS);
}

static int convolve_sequence(struct maker *maker, int x)
{
    int64_t heads = random_size(1, 3), stride = random_size(2, 5);
    int64_t groups = one_in(2) ? heads : 1, d = COLUMNS / groups;
    int kernel = weight(maker, d, d * stride), bias = weight(maker, 1, d);
    int keys = plan_convolve_sequence(maker->builder, x, kernel, bias, groups, stride, maker->length);
    return plan_attend(maker->builder, x, keys, keys,
                       (struct plan_attention){.heads = heads, .kv_heads = heads, .scale = 0.5f});
}

/* An attention whose keys are the rows of x, followed by the rows of the norm of x. */
static int append_rows(struct maker *maker, int x)
{
    int keys = plan_append_rows(maker->builder, x, norm(maker, x));
    return plan_attend(maker->builder, x, keys, keys,
                       (struct plan_attention){.heads = 2, .kv_heads = 2, .scale = 0.5f});
}

/* The window must divide the number of rows, so the operation is only added if this number is a multiple of nine. */
static int local_attend(struct maker *maker, int x)
{
    struct plan_head_range all = {0, 2, COLUMNS / 2};
    return maker->nines ? plan_local_attend(maker->builder, x, x, x, maker->mask, all, one_in(2) ? 9 : 3, one_in(2))
                        : x;
}

/* Pads the rows to maker->length, and projects the padded rows to keys. */
static int pad_rows(struct maker *maker, int x)
{
    struct plan_builder *builder = maker->builder;
    struct plan_padding padding = {.rows = maker->length};
    struct plan_projection e = {
        .weight = weight(maker, maker->length, 10), .bias = PLAN_NONE, .groups = 1, .transposed = false};
    int keys = plan_pad_rows(builder, plan_add(builder, x, norm(maker, x), 1.0f), padding);
    keys = plan_linear(builder, keys, weight(maker, COLUMNS, COLUMNS), some_bias(maker, COLUMNS));
    keys = plan_project_sequence(builder, keys, e);
    return plan_attend(builder, x, keys, keys, (struct plan_attention){.heads = 2, .kv_heads = 2, .scale = 0.5f});
}

/* Whether the axis of x has padding. The number of rows in a space is that of the input, without padding. */
static bool is_padded(const struct maker *maker, int x)
{
    const struct plan_axis *axis = &maker->builder->plan->axes[plan_value_at(maker->builder, x)->axis];
    return axis->input_padding.rows != 0 || axis->input_padding.multiple != 0;
}

static const struct plan_source none = {PLAN_NONE, PLAN_NONE, 0};

/* Adds a space over `count` columns, beginning with `first`, of all rows of a value (n, COLUMNS). If `back` is set, x
 * is read from the last row to the first. If `rows` is set, z is a value, otherwise one row of a weight. */
static int space_of_columns(struct plan_builder *builder, int64_t first, int64_t count, bool back, bool rows)
{
    int n = plan_size_free(builder, 0, 0, 1, MAX_LENGTH), one = plan_size_constant(builder, 1);
    int stride = plan_size_constant(builder, COLUMNS), from = plan_size_constant(builder, first);
    int minus = plan_size_constant(builder, -COLUMNS), zero = plan_size_constant(builder, 0);
    int last = plan_size_multiply(builder, plan_size_subtract(builder, n, one), stride);
    struct plan_space space = {.rank = 2,
                               .dimensions = {{n, back ? minus : stride, rows ? stride : zero, stride, stride},
                                              {plan_size_constant(builder, count), one, one, one, one}},
                               .x_first = back ? plan_size_add(builder, last, from) : from,
                               .z_first = from,
                               .keys_first = from,
                               .y_first = from};
    return plan_add_space(builder, &space);
}

static struct plan_target like(struct plan_builder *builder, int x)
{
    return (struct plan_target){plan_value_at(builder, x)->axis, COLUMNS, false, PLAN_NONE};
}

/* One step copies some columns of y from x, another step copies the others from another value. Each may reverse the
 * order of the rows. The passes may move steps between these two steps. */
static int arrange(struct maker *maker, int x)
{
    struct plan_builder *builder = maker->builder;
    if (is_padded(maker, x))
        return x;
    int64_t first = random_size(1, COLUMNS - 1);
    struct plan_target y = like(builder, x);
    struct plan_source source = none;
    source.value = x;
    y.value = plan_arrange(builder, source, space_of_columns(builder, 0, first, one_in(2), true), y);
    source.value = plan_activate(builder, linear(maker, x, COLUMNS, COLUMNS), ACTIVATION_RELU);
    return plan_arrange(builder, source, space_of_columns(builder, first, COLUMNS - first, one_in(2), true), y);
}

/* The result is x plus a vector where a condition is not 0. Elsewhere it is the maximum of this sum and another
 * value. */
static int combine_and_select(struct maker *maker, int x)
{
    struct plan_builder *builder = maker->builder;
    if (is_padded(maker, x))
        return x;
    struct plan_source z = none, made = none, other = none;
    z.weight = weight(maker, 1, COLUMNS);
    int rows = space_of_columns(builder, 0, COLUMNS, false, true);
    made.value = plan_combine(builder, FUNCTION_ADD, x, z, one_in(2),
                              space_of_columns(builder, 0, COLUMNS, false, false), like(builder, x));
    other.value = linear(maker, x, COLUMNS, COLUMNS);
    other.value = plan_combine(builder, FUNCTION_MAXIMUM, made.value, other, false, rows, like(builder, x));
    int condition = plan_activate(builder, x, ACTIVATION_RELU);
    return plan_select(builder, condition, made, other, rows, like(builder, x));
}

/* Computes the softmax of each row, its cumulative sums, and their product with a matrix. */
static int softmax_cumulate_and_multiply(struct maker *maker, int x)
{
    struct plan_builder *builder = maker->builder;
    if (is_padded(maker, x))
        return x;
    struct plan_source z = none;
    z.weight = weight(maker, COLUMNS, COLUMNS);
    int rows = space_of_columns(builder, 0, COLUMNS, false, true);
    x = plan_softmax(builder, x, rows, false, like(builder, x));
    x = plan_reduce(builder, REDUCTION_CUMULATE, x, rows, 1, 0, like(builder, x));
    struct plan_space space = builder->failed ? (struct plan_space){.rank = 0} : builder->plan->spaces[rows];
    int n = space.dimensions[0].count, one = plan_size_constant(builder, 1),
        columns = plan_size_constant(builder, COLUMNS);
    space.rank = 3;
    space.dimensions[0] = (struct plan_dimension){n, columns, 0, 0, columns};
    space.dimensions[1] = (struct plan_dimension){columns, 0, one, 0, one};
    space.dimensions[2] = (struct plan_dimension){columns, one, columns, 0, 0};
    return plan_multiply(builder, x, z, 0.5f, plan_add_space(builder, &space), like(builder, x));
}

/* Replaces every row of x by the first or the last row. The steps before need to compute only this row. */
static int repeat_row(struct plan_builder *builder, int x, bool last)
{
    int space = space_of_columns(builder, 0, COLUMNS, false, true);
    struct plan_space row = builder->failed ? (struct plan_space){.rank = 0} : builder->plan->spaces[space];
    struct plan_space rows = row;
    int zero = plan_size_constant(builder, 0), one = plan_size_constant(builder, 1);
    if (last)
        row.x_first = plan_size_multiply(builder, plan_size_subtract(builder, row.dimensions[0].count, one),
                                         plan_size_constant(builder, COLUMNS));
    row.dimensions[0].count = one;
    rows.dimensions[0].x = zero;
    struct plan_source source = none;
    source.value = x;
    struct plan_target target = {plan_fixed_axis(builder, 1), COLUMNS, false, PLAN_NONE};
    source.value = plan_arrange(builder, source, plan_add_space(builder, &row), target);
    return plan_arrange(builder, source, plan_add_space(builder, &rows), like(builder, x));
}

/* Replaces every row of the result of two linear layers by one of its rows. */
static int select_row(struct maker *maker, int x)
{
    struct plan_builder *builder = maker->builder;
    if (is_padded(maker, x))
        return x;
    int inner = plan_activate(builder, linear(maker, x, COLUMNS, 2 * COLUMNS), ACTIVATION_RELU);
    int y = plan_add(builder, linear(maker, inner, 2 * COLUMNS, COLUMNS), x, 1.0f);
    return repeat_row(builder, y, one_in(2));
}

static int (*const drawn[])(struct maker *maker, int x) = {
    rotate,
    add_positions,
    add_sinusoids,
    embed,
    concatenate,
    convolve_sequence,
    append_rows,
    local_attend,
    pad_rows,
    arrange,
    combine_and_select,
    group_norm,
    softmax_cumulate_and_multiply,
    select_row,
};

#define N_DRAWN (sizeof drawn / sizeof *drawn)

static const char *const not_drawn[OP_COUNT] = {
    [OP_PROJECT_CALL] = "calls are given whole: test_calls.c",
    [OP_ATTEND_CALL] = "calls are given whole: test_calls.c",
    [OP_RESHAPE] = "the axes of drawn plans are those of inputs: test_operations.c",
    [OP_CONVOLVE_IMAGE] = "images are given whole: test_images.c",
    [OP_CONVOLVE_GROUPS] = "images are given whole: test_operations.c",
    [OP_CONVOLVE_CHANNELS] = "images are given whole: test_operations.c",
    [OP_GIVE_IMAGE] = "images are given whole: test_images.c",
    [OP_GIVE_TENSOR] = "tensors are given whole: test_operations.c",
    [OP_RETRIEVE] = "it chooses among keys, so that rounding may change a result by much: test_operations.c",
};

static int feed_forward(struct maker *maker, int x)
{
    int64_t hidden = random_size(1, 300);
    bool gated = one_in(2);
    x = linear(maker, x, COLUMNS, gated ? 2 * hidden : hidden);
    if (gated)
        x = plan_gate(maker->builder, x, (struct plan_activation){.kind = ACTIVATION_GELU});
    else if (!one_in(4))
        x = plan_activate(maker->builder, x, one_in(2) ? ACTIVATION_GELU : ACTIVATION_RELU);
    return linear(maker, x, hidden, COLUMNS);
}

static int block_input(struct maker *maker, int x)
{
    static const int64_t shifts[] = {1, 0, -1};
    x = one_in(4) ? x : norm(maker, x);
    if (one_in(2))
        x = drawn[random_size(0, N_DRAWN - 1)](maker, x);
    return one_in(3) ? plan_shift_tokens(maker->builder, x, random_size(2, 3), shifts) : x;
}

/* Adds up to two layers, with one stream of activations, or with two streams as in reversible networks. */
static int layers(struct maker *maker, int x)
{
    bool reversible = one_in(4);
    int x1 = x, x2 = x;
    for (int64_t depth = random_size(0, 2); depth > 0; depth--) {
        x1 = plan_add(maker->builder, x1, attention(maker, block_input(maker, x2)), 1.0f);
        x2 = reversible ? x2 : x1;
        x2 = plan_add(maker->builder, x2, feed_forward(maker, block_input(maker, x1)), 1.0f);
        x1 = reversible ? x1 : x2;
    }
    x = reversible ? plan_add(maker->builder, x1, x2, 0.5f) : x2;
    return one_in(2) ? norm(maker, x) : x;
}

/* Builds a random plan. Consecutive numbers choose the operations of `drawn` in turn, and the kinds of padding in
 * turn. */
static void build_drawn(struct plan_builder *builder, uint64_t number)
{
    struct maker maker = {.builder = builder, .length = MAX_LENGTH};
    uint64_t padding = number % 6;
    maker.pool = plan_matrix(builder, 64, 1024, "pool");
    static const enum padding allowed[] = {PADDING_SLICE, PADDING_EXACT, PADDING_DEFAULT};
    plan_choose_padding(builder, "a drawn plan", padding == 2 ? PADDING_EXACT : PADDING_DEFAULT, allowed);
    int x = plan_input_rows(builder, "x", COLUMNS, MAX_LENGTH, PLAN_NONE);
    if (padding == 0)
        x = plan_pad(builder, x, MAX_LENGTH);
    else if (padding == 1)
        x = plan_pad_to_multiple(builder, x, 9);
    maker.mask = plan_input_mask(builder, "mask", x);
    maker.nines = padding <= 2;
    x = layers(&maker, drawn[number % N_DRAWN](&maker, x));
    if (number / 6 % 2)
        x = plan_cut_padding(builder, x);
    bool has_logits = one_in(2);
    plan_give(builder, x, has_logits ? weight(&maker, VOCABULARY, COLUMNS) : PLAN_NONE,
              has_logits ? some_bias(&maker, VOCABULARY) : PLAN_NONE, has_logits);
}

/* For number 2 d + l, builds a plan with the operation d of `drawn`, a linear layer, and the selection of one row of
 * the result. This is the first row if l is 0, and the last row if l is 1. */
static void build_selection(struct plan_builder *builder, uint64_t number)
{
    struct maker maker = {.builder = builder, .length = MAX_LENGTH};
    maker.pool = plan_matrix(builder, 64, 1024, "pool");
    int x = plan_input_rows(builder, "x", COLUMNS, MAX_LENGTH, PLAN_NONE);
    maker.mask = plan_input_mask(builder, "mask", x);
    x = linear(&maker, drawn[number / 2](&maker, x), COLUMNS, COLUMNS);
    plan_give(builder, repeat_row(builder, x, number % 2 == 1), PLAN_NONE, PLAN_NONE, false);
}

/* ---- A plan with and without its passes ---- */

struct bench {
    void (*build)(struct plan_builder *builder, uint64_t number);
    struct backend *backend;
    struct weights *weights;
    void *file;
    struct plan *plan, *as_built;
    struct backend_model *model;
    struct batch batch;
    struct error error;
};

static struct plan *make_plan(struct bench *bench, uint64_t plan_seed, bool as_built)
{
    struct plan_builder builder;
    struct plan *plan;
    random_seed(plan_seed);
    assert_int_equal(plan_begin(&builder, bench->weights, &bench->error), 0);
    builder.as_built = as_built;
    bench->build(&builder, plan_seed);
    if (plan_finish(&builder, MAX_ROWS, MAX_ITEMS, &plan) != 0)
        fail_msg("%s", bench->error.message);
    for (int i = 0; i < plan->n_steps; i++)
        is_in_a_plan[plan->steps[i].operation] = true;
    return plan;
}

static void open_bench(struct bench *bench, void (*build)(struct plan_builder *, uint64_t), uint64_t plan_seed)
{
    static const struct tensor_shape pool = {"pool", 64, 1024};
    struct engine_options options = {.device = {DEVICE},
                                     .dtype = DTYPE_F32,
                                     .threads = 2,
                                     .all_threads = true,
                                     /* only one of four plans uses tensor cores, because they are slow on the shim */
                                     .cuda_f32 = plan_seed % 4 ? CUDA_F32_PLAIN : CUDA_F32_TENSOR,
                                     .products = plan_seed % 2 ? LIBRARY_OPENBLAS : LIBRARY_AUTO};
    memset(bench, 0, sizeof *bench);
    bench->build = build;
    random_seed(seed);
    bench->weights = tensors_random(&pool, 1, &bench->file);
    functions = DEVICE == DEVICE_CPU ? &backend_cpu : backend_cuda_load(&bench->error);
    if (!functions)
        fail_msg("%s", bench->error.message);
    must(functions->open(&options, 0, &bench->backend, &bench->error), &bench->error);
    bench->as_built = make_plan(bench, plan_seed, true);
    bench->plan = make_plan(bench, plan_seed, false);
    must(functions->prepare(bench->backend, bench->plan, false, &bench->model, &bench->error), &bench->error);
    assert_int_equal(padder_open(bench->plan, &bench->batch, &bench->error), 0);
}

static void close_bench(struct bench *bench)
{
    padder_free(bench->plan, &bench->batch);
    functions->unprepare(bench->model);
    plan_free(bench->plan);
    plan_free(bench->as_built);
    weights_close(bench->weights);
    free(bench->file);
    functions->close(bench->backend);
}

/* ---- Items with different requested results ---- */

struct results {
    float hidden[MAX_LENGTH * COLUMNS], pooled[COLUMNS], output[MAX_LENGTH * VOCABULARY];
    int32_t rows[MAX_LENGTH];
};

static void fill_inputs(struct engine_item *item, int64_t length)
{
    float *rows = malloc((size_t)(length * COLUMNS) * sizeof *rows);
    uint8_t *mask = malloc((size_t)length);
    memset(item, 0, sizeof *item);
    for (int64_t i = 0; i < length * COLUMNS; i++)
        rows[i] = random_float() * 2;
    for (int64_t i = 0; i < length; i++)
        mask[i] = !one_in(4);
    item->inputs[0].data = rows;
    item->inputs[0].length = item->inputs[1].length = length;
    item->inputs[1].data = mask;
}

static void random_inputs(const struct plan *plan, struct engine_item *item)
{
    bool exact = plan->padding == PADDING_EXACT;
    fill_inputs(item, exact ? MAX_LENGTH : random_size(1, MAX_LENGTH));
}

static void want_something(struct engine_item *item, struct results *results)
{
    int64_t length = item->inputs[0].length;
    memset(results, 0, sizeof *results);
    item->hidden = one_in(5) ? results->hidden : NULL;
    item->pooled = one_in(2) ? results->pooled : NULL;
    item->pooling = (enum pooling)random_size(0, POOLING_COUNT - 1);
    item->output = one_in(3) ? NULL : results->output;
    item->n_rows = length;
    if (one_in(4))
        return;
    item->n_rows = random_size(0, length < 4 ? length : 4);
    item->rows = results->rows;
    for (int64_t i = 0; i < item->n_rows; i++)
        results->rows[i] = (int32_t)random_size(0, length - 1);
}

static void free_inputs(struct engine_item *item)
{
    free((void *)item->inputs[0].data);
    free((void *)item->inputs[1].data);
}

static void assert_close(const char *what, int64_t n, const float *found, const double *expected)
{
    double largest = 0.3;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(expected[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)found[i] - expected[i]) <= TOLERANCE * largest))
            fail_msg("%s[%lld]: found %.9g, expected %.9g", what, (long long)i, (double)found[i], expected[i]);
}

/* Compares the items' results with those of the plan without passes. */
static void compare_with_scalar(const struct bench *bench, const struct engine_item *items, int64_t count)
{
    const struct plan *plan = bench->as_built;
    struct batch batch;
    struct error error;
    static double expected[MAX_LENGTH * VOCABULARY];
    assert_int_equal(padder_open(plan, &batch, &error), 0);
    padder_lay_out(plan, &batch, items, count);
    double **values = scalar_run(plan, &batch);
    int hidden = plan->steps[plan->n_steps - 1].x;
    for (int64_t i = 0; i < count; i++) {
        const struct engine_item *item = &items[i];
        if (item->hidden)
            assert_close("hidden", item->inputs[0].length * COLUMNS, item->hidden,
                         values[hidden] + batch.layouts[plan->values[hidden].axis].starts[i] * COLUMNS);
        if (item->pooled) {
            scalar_pooled(plan, &batch, values, i, expected);
            assert_close("pooled", COLUMNS, item->pooled, expected);
        }
        if (item->output) {
            scalar_output(plan, &batch, values, i, expected);
            assert_close("output", item->n_rows * plan->output_columns, item->output, expected);
        }
    }
    scalar_free(plan, values);
    padder_free(plan, &batch);
}

static void run_items(struct bench *bench, const struct engine_item *items, int64_t count)
{
    padder_lay_out(bench->plan, &bench->batch, items, count);
    must(functions->run(bench->model, 0, &bench->batch, &bench->error), &bench->error);
}

static void assert_same(const struct bench *bench, const float *found, const float *expected, int64_t n)
{
    if (functions->batch_invariant(bench->backend))
        assert_memory_equal(found, expected, (size_t)n * sizeof *found);
    float largest = 1;
    for (int64_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(expected[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(found[i] - expected[i]) <= 1e-4f * largest))
            fail_msg("in company %.9g, alone %.9g", (double)found[i], (double)expected[i]);
}

/* Compares the item's results in the batch with those of the same item run alone. When it runs alone, the item requests
 * all results. */
static void compare_alone(struct bench *bench, const struct engine_item *item)
{
    static struct results all;
    struct engine_item alone = *item;
    int64_t columns = bench->plan->output_columns;
    alone.hidden = all.hidden;
    alone.pooled = all.pooled;
    alone.output = all.output;
    alone.rows = NULL;
    alone.n_rows = item->inputs[0].length;
    run_items(bench, &alone, 1);
    if (item->hidden)
        assert_same(bench, item->hidden, all.hidden, item->inputs[0].length * COLUMNS);
    if (item->pooled)
        assert_same(bench, item->pooled, all.pooled, COLUMNS);
    for (int64_t i = 0; item->output && i < item->n_rows; i++)
        assert_same(bench, item->output + i * columns, all.output + (item->rows ? item->rows[i] : i) * columns,
                    columns);
}

static void run_plan(uint64_t plan_seed)
{
    static struct results results[MAX_ITEMS];
    struct engine_item items[MAX_ITEMS];
    struct bench bench;
    open_bench(&bench, build_drawn, plan_seed);
    for (int repeat = 0; repeat < 3; repeat++) {
        int64_t count = random_size(1, MAX_ITEMS);
        for (int64_t i = 0; i < count; i++) {
            random_inputs(bench.plan, &items[i]);
            want_something(&items[i], &results[i]);
        }
        run_items(&bench, items, count);
        compare_with_scalar(&bench, items, count);
        for (int64_t i = 0; i < count; i++)
            compare_alone(&bench, &items[i]);
        for (int64_t i = 0; i < count; i++)
            free_inputs(&items[i]);
    }
    close_bench(&bench);
}

static void rewritten_plans_give_the_same_results(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < PLANS; i++) {
        print_message("plan %llu\n", (unsigned long long)i);
        run_plan(seed * 1000 + i);
    }
}

static bool moves_to_one_row(const struct plan *plan)
{
    for (int d = 0; d < plan->n_decisions; d++)
        if (strstr(plan->decisions[d].what, "only on the selected row"))
            return true;
    return false;
}

/* A plan that selects one row computes only this row, unless an operation depends on the position of the row. The table
 * plan_operations marks these operations. If a mark is missing, the last row of a long item is wrong. */
static void run_selection(uint64_t number)
{
    static struct results results;
    struct engine_item item;
    struct bench bench;
    open_bench(&bench, build_selection, number);
    print_message("the %s row after the operations", number % 2 ? "last" : "first");
    for (int i = 0; i < bench.as_built->n_steps; i++)
        print_message(" %s", operation_name(bench.as_built->steps[i].operation));
    print_message("\n");
    assert_true(moves_to_one_row(bench.plan));
    fill_inputs(&item, MAX_LENGTH);
    item.hidden = results.hidden;
    run_items(&bench, &item, 1);
    compare_with_scalar(&bench, &item, 1);
    free_inputs(&item);
    close_bench(&bench);
}

static void a_selected_row_keeps_its_position(void **state)
{
    (void)state;
    for (uint64_t number = 0; number < 2 * N_DRAWN; number++)
        run_selection(number);
}

/* This test runs after the tests that build plans. */
static void random_plans_contain_every_operation(void **state)
{
    (void)state;
    for (int i = 0; i < OP_COUNT; i++) {
        const char *name = operation_name((enum operation)i);
        if (!is_in_a_plan[i] && !not_drawn[i])
            fail_msg("no plan has the operation %s: draw it in tests/unit/test_passes.c, or say in not_drawn why not",
                     name);
        if (is_in_a_plan[i] && not_drawn[i])
            fail_msg("the operation %s is drawn, though not_drawn names it", name);
    }
}

/* Returns the FLOPs of the plan's products with weights, of projections, and of gates. Epilogues do not count. */
static int64_t product_flops(const struct plan *plan, int64_t rows)
{
    int64_t flops = 0;
    for (int i = 0; i < plan->n_steps; i++) {
        enum operation operation = plan->steps[i].operation;
        if (operation == OP_LINEAR || operation == OP_PROJECT_SEQUENCE || operation == OP_GATE ||
            operation == OP_FEED_FORWARD)
            flops += plan_step_flops(plan, &plan->steps[i], rows);
    }
    return flops;
}

static void decisions_report_the_flops_they_save(void **state)
{
    (void)state;
    int taken = 0;
    for (uint64_t i = 0; i < PLANS; i++) {
        struct bench bench;
        open_bench(&bench, build_drawn, seed * 1000 + i);
        for (int64_t rows = 1; rows <= MAX_LENGTH; rows += 11) {
            int64_t saved = 0;
            for (int d = 0; d < bench.plan->n_decisions; d++) {
                const struct plan_decision *decision = &bench.plan->decisions[d];
                int64_t before = decision->before.item + rows * decision->before.row;
                int64_t after = decision->after.item + rows * decision->after.row;
                bool counts = rows >= decision->least_rows && !decision->one_row;
                saved += counts ? before - after : 0;
                taken += counts && after < before;
            }
            assert_int_equal(product_flops(bench.as_built, rows) - product_flops(bench.plan, rows), saved);
        }
        close_bench(&bench);
    }
    assert_true(taken > 0);
}

/* A plan that a test builds from slices of random weights. */
struct small_plan {
    struct plan_builder builder;
    struct weights *weights;
    void *file;
};

static struct maker begin_small(struct small_plan *small)
{
    static const struct tensor_shape pool = {"pool", 64, 1024};
    struct error error = {""};
    random_seed(seed);
    small->weights = tensors_random(&pool, 1, &small->file);
    must(plan_begin(&small->builder, small->weights, &error), &error);
    struct maker maker = {.builder = &small->builder, .length = MAX_LENGTH};
    maker.pool = plan_matrix(&small->builder, 64, 1024, "pool");
    return maker;
}

static struct plan *finish_small(struct small_plan *small)
{
    struct plan *plan;
    struct error error = {""};
    must(plan_finish(&small->builder, MAX_ROWS, MAX_ITEMS, &plan), &error);
    return plan;
}

static void end_small(struct small_plan *small, struct plan *plan)
{
    plan_free(plan);
    weights_close(small->weights);
    free(small->file);
}

/* All items have the same number of rows. Two chains of products have the same E:
 *
 *     K = Eᵀ((x Aᵀ + a) Wᵀ + w)
 *     V = Eᵀ(x Uᵀ + u)
 *
 * After the pass re-associate has rewritten K, its projection follows the step with A, and has a column of sums. The
 * pass must not regard this step and this projection as another chain from x, the source of V. Otherwise it would
 * regard V as rewritten, and not rewrite it. */
static void a_rewritten_projection_is_not_rewritten_again(void **state)
{
    (void)state;
    struct small_plan small;
    struct maker maker = begin_small(&small);
    struct plan_builder *builder = maker.builder;
    int x = plan_input_rows(builder, "x", COLUMNS, MAX_LENGTH, PLAN_NONE);
    x = plan_pad(builder, x, MAX_LENGTH);
    struct plan_projection e = {.weight = weight(&maker, MAX_LENGTH, 4), .bias = PLAN_NONE, .groups = 1};
    int between = plan_linear(builder, x, weight(&maker, COLUMNS, COLUMNS), weight(&maker, 1, COLUMNS));
    int keys = plan_linear(builder, between, weight(&maker, COLUMNS, COLUMNS), weight(&maker, 1, COLUMNS));
    keys = plan_project_sequence(builder, keys, e);
    int values = plan_linear(builder, x, weight(&maker, COLUMNS, COLUMNS), weight(&maker, 1, COLUMNS));
    values = plan_project_sequence(builder, values, e);
    int y = plan_attend(builder, x, keys, values, (struct plan_attention){.heads = 1, .kv_heads = 1, .scale = 0.5f});
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
    struct plan *plan = finish_small(&small);
    int rewritten = 0;
    for (int d = 0; d < plan->n_decisions; d++)
        rewritten += strncmp(plan->decisions[d].what, "re-associate", strlen("re-associate")) == 0 &&
                     plan->decisions[d].least_rows == 1;
    assert_int_equal(rewritten, 2);
    end_small(&small, plan);
}

/* Two pairs of linear steps, one with a gate between its steps, become two steps. The second step of the one pair
 * directly follows that of the other. */
static void neighbouring_pairs_of_linear_steps_are_both_joined(void **state)
{
    (void)state;
    struct small_plan small;
    struct maker maker = begin_small(&small);
    struct plan_builder *builder = maker.builder;
    int x = plan_input_rows(builder, "x", COLUMNS, MAX_LENGTH, PLAN_NONE);
    int plain = plan_linear(builder, x, weight(&maker, 8, COLUMNS), PLAN_NONE);
    int gated = plan_linear(builder, x, weight(&maker, 2 * 8, COLUMNS), PLAN_NONE);
    gated = plan_gate(builder, gated, (struct plan_activation){.kind = ACTIVATION_GELU});
    gated = plan_linear(builder, gated, weight(&maker, COLUMNS, 8), PLAN_NONE);
    plain = plan_linear(builder, plain, weight(&maker, COLUMNS, 8), PLAN_NONE);
    plan_give(builder, plan_add(builder, gated, plain, 1.0f), PLAN_NONE, PLAN_NONE, false);
    struct plan *plan = finish_small(&small);
    int joined = 0;
    for (int i = 0; i < plan->n_steps; i++)
        joined += plan->steps[i].operation == OP_FEED_FORWARD;
    assert_int_equal(joined, 2);
    end_small(&small, plan);
}

int main(void)
{
    const char *given = getenv("SEED");
    seed = given ? strtoull(given, NULL, 10) : 20261120;
    print_message("SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rewritten_plans_give_the_same_results),
        cmocka_unit_test(a_selected_row_keeps_its_position),
        cmocka_unit_test(random_plans_contain_every_operation),
        cmocka_unit_test(decisions_report_the_flops_they_save),
        cmocka_unit_test(a_rewritten_projection_is_not_rewritten_again),
        cmocka_unit_test(neighbouring_pairs_of_linear_steps_are_both_joined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
