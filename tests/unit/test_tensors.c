/* Tests of modules, whose items are tensors of any shape. The functions of this file build the plans. The public
 * functions of the engine run them. The expected results are computed from the weights in double precision. */
#include "engine/engine.h"
#include "engine/families/family.h"
#include "engine/model.h"
#include "engine/plan/axes.h"
#include "engine/plan/sizes.h"
#include "tests/unit/loaded.h"
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
#define DEVICE DEVICE_CPU /* tests/cuda/test_tensors_cuda.c defines another value */
#endif

#define COUNT(list) (sizeof(list) / sizeof *(list))
#define TOKENS 96
#define ITEMS 4
#define DIM 12
#define OUT 5

/* A model whose plan a function of this file builds, and its weights. */
struct made {
    struct loaded loaded;
    struct weights *weights;
    void *file;
};

static int try_make(void (*build)(struct plan_builder *, const char *, const struct model_config *),
                    const struct tensor_shape *shapes, size_t count, struct made *made, struct error *error)
{
    struct family_class class = {.name = "module", .module_name = "module", .build = build};
    struct engine_options options = {
        .device = {DEVICE}, .dtype = DTYPE_F32, .threads = 2, .max_batch_tokens = TOKENS, .max_batch_requests = ITEMS};
    struct model_config config = {.architecture = "module"};
    memset(made, 0, sizeof *made);
    must(engine_open(&options, &made->loaded.engine, error), error);
    made->weights = tensors_random(shapes, count, &made->file);
    return model_load(made->loaded.engine, &class, &config, made->weights, NULL, NULL, &made->loaded.model, error);
}

static void make(void (*build)(struct plan_builder *, const char *, const struct model_config *),
                 const struct tensor_shape *shapes, size_t count, struct made *made)
{
    struct error error;
    double flops;
    must(try_make(build, shapes, count, made, &error), &error);
    must(model_warm_up(made->loaded.model, 0, &flops, &error), &error);
}

static void unmake(struct made *made)
{
    unload(&made->loaded);
    weights_close(made->weights);
    free(made->file);
}

static const float *floats_of(const struct made *made, const char *name)
{
    return weights_find(made->weights, name)->data;
}

static float *random_floats(int64_t count)
{
    float *values = calloc((size_t)count + 1, sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = random_float();
    return values;
}

static void assert_near(int64_t count, const float *found, const double *expected)
{
    for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)found[i] - expected[i]) <= 1e-5))
            fail_msg("[%lld]: found %.9g, expected %.9g", (long long)i, (double)found[i], expected[i]);
}

/* ---- A tagger with several inputs and outputs ----
 * x (h, w, DIM) floats, marks (h, w) ids, kept (h, w) a mask. Outputs:
 * - sum (h, w, DIM) = x + table[marks]
 * - tags (h, w, OUT) = kept * sum Wᵀ
 * - marks (h * w) = the ids */

#define MARKS 9

static const struct tensor_shape tagger_shapes[] = {{"table", MARKS, DIM}, {"w", OUT, DIM}};

static void build_tagger(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    (void)name, (void)config;
    int h = plan_size_free(builder, 0, 0, 1, 40), w = plan_size_free(builder, 0, 1, 2, 50);
    int dim = plan_size_constant(builder, DIM), out = plan_size_constant(builder, OUT);
    int of_x[] = {h, w, dim}, of_marks[] = {h, w}, of_tags[] = {h, w, out},
        of_row[] = {plan_size_multiply(builder, w, h)};
    int x = plan_input_tensor(builder, "x", INPUT_ROWS, 0, 3, of_x, DIM);
    int marks = plan_input_tensor(builder, "marks", INPUT_IDS, MARKS, 2, of_marks, 1);
    int kept = plan_input_tensor(builder, "kept", INPUT_MASK, 0, 2, of_marks, 1);
    plan_limit_size(builder, (struct plan_size_limit){
                                 .size = w, .least = 0, .most = INT64_MAX, .multiple = 2, .what = "the width of x"});
    int sum = plan_add(builder, x, plan_embed(builder, marks, plan_matrix(builder, MARKS, DIM, "table")), 1.0f);
    int tags = plan_mask_rows(builder, plan_linear(builder, sum, plan_matrix(builder, OUT, DIM, "w"), PLAN_NONE), kept);
    plan_add_output(builder, "tags", 3, of_tags);
    plan_add_output(builder, "marks", 1, of_row);
    plan_add_output(builder, "sum", 3, of_x);
    plan_give_tensor(builder, tags, 0);
    plan_give_tensor(builder, marks, 1);
    plan_give_tensor(builder, sum, 2);
}

struct tagged {
    struct engine_item item;
    struct engine_extra extras[2];
    int64_t rows;
    float *x, *tags, *marks_out, *sum;
    int32_t *marks;
    uint8_t *kept;
};

static void tag_begin(struct tagged *t, int64_t h, int64_t w)
{
    memset(t, 0, sizeof *t);
    t->rows = h * w;
    t->x = random_floats(t->rows * DIM);
    t->marks = calloc((size_t)(2 * t->rows), sizeof *t->marks); /* twice, because a test states a larger size */
    t->kept = calloc((size_t)t->rows, 1);
    for (int64_t i = 0; i < t->rows; i++) {
        t->marks[i] = (int32_t)random_size(0, MARKS - 1);
        t->kept[i] = (uint8_t)(random_size(0, 2) * 2);
    }
    t->tags = calloc((size_t)(t->rows * OUT), sizeof(float));
    t->marks_out = calloc((size_t)t->rows, sizeof(float));
    t->sum = calloc((size_t)(t->rows * DIM), sizeof(float));
    const void *data[] = {t->x, t->marks, t->kept};
    for (int i = 0; i < 3; i++) {
        t->item.inputs[i].data = data[i];
        t->item.inputs[i].sizes[0] = h;
        t->item.inputs[i].sizes[1] = w;
        t->item.inputs[i].sizes[2] = DIM;
    }
    t->extras[0] = (struct engine_extra){.output = 2, .data = t->sum};
    t->extras[1] = (struct engine_extra){.output = 1, .data = t->marks_out};
    t->item.output = t->tags;
    t->item.extras = t->extras;
    t->item.n_extras = 2;
}

static void tag_free(struct tagged *t)
{
    void *all[] = {t->x, t->marks, t->kept, t->tags, t->marks_out, t->sum};
    for (size_t i = 0; i < COUNT(all); i++)
        free(all[i]);
}

static void compare_tagged(const struct made *made, const struct tagged *t)
{
    const float *table = floats_of(made, "table"), *w = floats_of(made, "w");
    double *sum = calloc((size_t)(t->rows * DIM), sizeof *sum), *tags = calloc((size_t)(t->rows * OUT), sizeof *tags);
    for (int64_t r = 0; r < t->rows; r++) {
        assert_true(t->marks_out[r] == (float)t->marks[r]);
        for (int64_t c = 0; c < DIM; c++)
            sum[r * DIM + c] = (double)t->x[r * DIM + c] + (double)table[t->marks[r] * DIM + c];
        for (int64_t o = 0; t->kept[r] && o < OUT; o++)
            for (int64_t c = 0; c < DIM; c++)
                tags[r * OUT + o] += sum[r * DIM + c] * (double)w[o * DIM + c];
    }
    assert_near(t->rows * DIM, t->sum, sum);
    assert_near(t->rows * OUT, t->tags, tags);
    free(sum);
    free(tags);
}

static void test_tensors_of_a_batch_have_the_expected_results(void **state)
{
    (void)state;
    /* The items have 2 + 12 + 40 + 42 rows, together TOKENS. */
    static const int64_t sizes[ITEMS][2] = {{1, 2}, {3, 4}, {5, 8}, {7, 6}};
    struct made made;
    struct tagged tagged[ITEMS];
    struct engine_item items[ITEMS];
    struct error error;
    int64_t tokens = 0;
    make(build_tagger, tagger_shapes, COUNT(tagger_shapes), &made);
    for (int i = 0; i < ITEMS; i++) {
        tag_begin(&tagged[i], sizes[i][0], sizes[i][1]);
        must(model_check(made.loaded.model, &tagged[i].item, &error), &error);
        items[i] = tagged[i].item;
        tokens += model_item_tokens(made.loaded.model, &items[i]);
    }
    assert_int_equal(tokens, TOKENS);
    must(model_run(made.loaded.model, 0, items, ITEMS, &error), &error);
    for (int i = 0; i < ITEMS; i++) {
        compare_tagged(&made, &tagged[i]);
        tag_free(&tagged[i]);
    }
    unmake(&made);
}

static void test_outputs_have_their_names_and_shapes(void **state)
{
    (void)state;
    static const char *const names[] = {"tags", "marks", "sum"};
    static const int64_t free_shapes[3][3] = {{-1, -1, OUT}, {-1}, {-1, -1, DIM}};
    static const int64_t shapes[3][3] = {{3, 4, OUT}, {12}, {3, 4, DIM}};
    struct made made;
    struct tagged tagged;
    make(build_tagger, tagger_shapes, COUNT(tagger_shapes), &made);
    const struct model_info *info = model_info(made.loaded.model);
    tag_begin(&tagged, 3, 4);
    assert_int_equal(info->n_outputs, 3);
    assert_int_equal(info->n_tensors, 3);
    for (int i = 0; i < 3; i++) {
        int64_t shape[ENGINE_MAX_RANK];
        int rank = model_output_shape(made.loaded.model, &tagged.item, i, shape);
        assert_string_equal(info->outputs[i], names[i]);
        assert_int_equal(rank, i == 1 ? 1 : 3);
        assert_int_equal(info->shapes[i].rank, rank);
        assert_memory_equal(shape, shapes[i], (size_t)rank * sizeof *shape);
        assert_memory_equal(info->shapes[i].sizes, free_shapes[i], (size_t)rank * sizeof *shape);
    }
    assert_int_equal(info->inputs[0].rank, 3);
    assert_int_equal(info->inputs[0].shape[0], -1);
    assert_int_equal(info->inputs[0].shape[2], DIM);
    tag_free(&tagged);
    unmake(&made);
}

static void test_wrong_items_are_refused_by_name(void **state)
{
    (void)state;
    struct made made;
    struct tagged t;
    make(build_tagger, tagger_shapes, COUNT(tagger_shapes), &made);
    tag_begin(&t, 3, 4);
    struct engine_item item = t.item;
    item.inputs[1].sizes[1] = 6;
    assert_refused(&made.loaded, item, "\"marks\" has size 6", "expected 4, as in \"x\", dimension 1");
    item = t.item;
    item.inputs[0].sizes[2] = DIM + 1;
    assert_refused(&made.loaded, item, "\"x\" has size 13 in dimension 2", "expected 12");
    item = t.item;
    item.inputs[0].sizes[0] = 0;
    assert_refused(&made.loaded, item, "\"x\" is empty", "dimension 0");
    item.inputs[0].sizes[0] = INT64_MAX;
    assert_refused(&made.loaded, item, "\"x\" has size 9223372036854775807", "1 to 40");
    item = t.item;
    item.inputs[2].data = NULL;
    assert_refused(&made.loaded, item, "\"kept\"", "is missing");
    item = t.item;
    t.marks[7] = MARKS;
    assert_refused(&made.loaded, item, "marks[7] is 9", "0 to 8");
    t.marks[7] = 0;
    for (int i = 0; i < 3; i++)
        item.inputs[i].sizes[1] = 3;
    assert_refused(&made.loaded, item, "the width of x is 3", "a multiple of 2");
    tag_free(&t);
    tag_begin(&t, 7, 14); /* 98 rows, more than TOKENS */
    assert_refused(&made.loaded, t.item, "98 rows (x.0*x.1)", "at most 96 (--max-batch-tokens)");
    tag_free(&t);
    tag_begin(&t, 2, 2);
    item = t.item;
    item.softmax = true;
    assert_refused(&made.loaded, item, "returns tensors", "only the whole output");
    item = t.item;
    item.top_k = 1;
    assert_refused(&made.loaded, item, "returns tensors", "only the whole output");
    item = t.item;
    item.targets = (const int32_t[]){0};
    assert_refused(&made.loaded, item, "returns tensors", "only the whole output");
    t.extras[0].output = 3;
    assert_refused(&made.loaded, t.item, "output 3", "has 3");
    tag_free(&t);
    unmake(&made);
}

/* ---- Items of several sequences: a class is called on (batch * k, l, DIM) ---- */

static const struct tensor_shape folded_shapes[] = {{"gain", 0, DIM}, {"bias", 0, DIM}, {"q", DIM, DIM},
                                                    {"kv", DIM, DIM}, {"e", 40, 4},     {"positions", 40, DIM}};

/* x (k, l, DIM) -> y (k, l, DIM): a Linformer layer for each of the k sequences */
static void build_folded(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    (void)name, (void)config;
    int k = plan_size_free(builder, 0, 0, 1, 40), l = plan_size_free(builder, 0, 1, 1, 40);
    int sizes[] = {k, l, plan_size_constant(builder, DIM)};
    int x = plan_input_tensor(builder, "x", INPUT_ROWS, 0, 3, sizes, DIM);
    if (!builder->failed)
        builder->plan->values[x].axis = plan_sized_axis(builder, l, k);
    x = plan_add_positions(builder, x, plan_matrix(builder, 40, DIM, "positions"), PLAN_NONE, 1);
    int y = plan_layer_norm(builder, x, plan_vector(builder, DIM, "gain"), plan_vector(builder, DIM, "bias"), 1e-5f);
    int keys = plan_linear(builder, y, plan_matrix(builder, DIM, DIM, "kv"), PLAN_NONE);
    keys = plan_project_sequence(
        builder, keys,
        (struct plan_projection){.weight = plan_matrix(builder, 40, 4, "e"), .bias = PLAN_NONE, .groups = 1});
    y = plan_linear(builder, y, plan_matrix(builder, DIM, DIM, "q"), PLAN_NONE);
    y = plan_attend(builder, y, keys, keys, (struct plan_attention){.heads = 2, .kv_heads = 2, .scale = 0.4f});
    plan_add_output(builder, "y", 3, sizes);
    plan_give_tensor(builder, plan_add(builder, y, x, 1.0f), 0);
}

static void fold_begin(struct engine_item *item, int64_t k, int64_t l)
{
    memset(item, 0, sizeof *item);
    item->inputs[0].data = random_floats(k * l * DIM);
    item->inputs[0].sizes[0] = k;
    item->inputs[0].sizes[1] = l;
    item->inputs[0].sizes[2] = DIM;
    item->output = calloc((size_t)(k * l * DIM), sizeof(float));
}

/* Runs each sequence of the item as a separate item, and expects the same bits. */
static void compare_sequences(const struct made *made, const struct engine_item *item)
{
    int64_t k = item->inputs[0].sizes[0], floats = item->inputs[0].sizes[1] * DIM;
    float *alone = calloc((size_t)floats, sizeof *alone);
    struct error error;
    for (int64_t s = 0; s < k; s++) {
        struct engine_item one = *item;
        one.inputs[0].data = (const float *)item->inputs[0].data + s * floats;
        one.inputs[0].sizes[0] = 1;
        one.output = alone;
        must(model_check(made->loaded.model, &one, &error), &error);
        must(model_run(made->loaded.model, 0, &one, 1, &error), &error);
        assert_memory_equal(alone, item->output + s * floats, (size_t)floats * sizeof *alone);
    }
    free(alone);
}

static void test_items_with_folded_sequences_compute_the_same_in_a_batch(void **state)
{
    (void)state;
    static const int64_t sizes[ITEMS][2] = {{3, 5}, {1, 9}, {4, 2}, {2, 30}};
    struct made made;
    struct engine_item items[ITEMS];
    struct error error;
    make(build_folded, folded_shapes, COUNT(folded_shapes), &made);
    assert_int_equal(model_info(made.loaded.model)->n_outputs, 1); /* the model has no output attention.0 */
    for (int i = 0; i < ITEMS; i++) {
        fold_begin(&items[i], sizes[i][0], sizes[i][1]);
        must(model_check(made.loaded.model, &items[i], &error), &error);
    }
    must(model_run(made.loaded.model, 0, items, ITEMS, &error), &error);
    for (int i = 0; i < ITEMS; i++) {
        compare_sequences(&made, &items[i]);
        free((void *)items[i].inputs[0].data);
        free(items[i].output);
    }
    unmake(&made);
}

/* ---- Shapes without dimensions, and constant shapes ---- */

static const struct tensor_shape scorer_shapes[] = {{"w", 1, DIM}};

/* x (DIM) -> a number */
static void build_scorer(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    (void)name, (void)config;
    int dim = plan_size_constant(builder, DIM);
    int x = plan_input_tensor(builder, "x", INPUT_ROWS, 0, 1, &dim, DIM);
    plan_add_output(builder, "score", 0, NULL);
    plan_give_tensor(builder, plan_linear(builder, x, plan_matrix(builder, 1, DIM, "w"), PLAN_NONE), 0);
}

static void test_an_output_can_be_one_number_for_each_item(void **state)
{
    (void)state;
    struct made made;
    struct error error;
    int64_t shape[ENGINE_MAX_RANK];
    make(build_scorer, scorer_shapes, COUNT(scorer_shapes), &made);
    struct engine_item items[ITEMS];
    float found[ITEMS], *x[ITEMS];
    memset(items, 0, sizeof items);
    for (int i = 0; i < ITEMS; i++) {
        items[i].inputs[0].data = x[i] = random_floats(DIM);
        items[i].inputs[0].sizes[0] = DIM;
        items[i].output = &found[i];
        must(model_check(made.loaded.model, &items[i], &error), &error);
        assert_int_equal(model_output_shape(made.loaded.model, &items[i], 0, shape), 0);
    }
    must(model_run(made.loaded.model, 0, items, ITEMS, &error), &error);
    for (int i = 0; i < ITEMS; i++) {
        double expected = 0;
        for (int64_t c = 0; c < DIM; c++)
            expected += (double)x[i][c] * (double)floats_of(&made, "w")[c];
        assert_near(1, &found[i], &expected);
        free(x[i]);
    }
    unmake(&made);
}

static int64_t rows_of_picture; /* number of rows of the input of build_picture */

/* x (rows, DIM) -> (rows, 1). There may be more rows than --max-batch-tokens. */
static void build_picture(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    (void)name, (void)config;
    int sizes[] = {plan_size_constant(builder, rows_of_picture), plan_size_constant(builder, DIM)};
    int x = plan_input_tensor(builder, "x", INPUT_ROWS, 0, 2, sizes, DIM);
    sizes[1] = plan_size_constant(builder, 1);
    plan_add_output(builder, "y", 2, sizes);
    plan_give_tensor(builder, plan_linear(builder, x, plan_matrix(builder, 1, DIM, "w"), PLAN_NONE), 0);
}

/* An item of constant size may have more rows than --max-batch-tokens. It then runs alone, so the arena has room for
 * one such item, not for max_batch_requests of them. */
static void test_an_item_larger_than_a_batch_runs_alone(void **state)
{
    (void)state;
    struct made made;
    struct error error;
    rows_of_picture = 8 * TOKENS + 1;
    make(build_picture, scorer_shapes, COUNT(scorer_shapes), &made);
    struct engine_item item = {.output = calloc((size_t)rows_of_picture, sizeof(float))};
    item.inputs[0].data = random_floats(rows_of_picture * DIM);
    item.inputs[0].sizes[0] = rows_of_picture;
    item.inputs[0].sizes[1] = DIM;
    must(model_check(made.loaded.model, &item, &error), &error);
    assert_int_equal(model_item_tokens(made.loaded.model, &item), rows_of_picture);
    must(model_run(made.loaded.model, 0, &item, 1, &error), &error);
    const float *x = item.inputs[0].data;
    for (int64_t r = 0; r < rows_of_picture; r++) {
        double expected = 0;
        for (int64_t c = 0; c < DIM; c++)
            expected += (double)x[r * DIM + c] * (double)floats_of(&made, "w")[c];
        assert_near(1, &item.output[r], &expected);
    }
    const struct plan *plan = model_plan(made.loaded.model);
    for (int v = 0; v < plan->n_values; v++)
        assert_true(plan->values[v].bytes <= (size_t)((rows_of_picture + PLAN_ROW_BLOCK) * DIM) * sizeof(float));
    free((void *)item.inputs[0].data);
    free(item.output);
    unmake(&made);
}

static void assert_not_made(int64_t rows, const char *first, const char *second)
{
    struct made made;
    struct error error = {""};
    rows_of_picture = rows;
    assert_int_equal(try_make(build_picture, scorer_shapes, COUNT(scorer_shapes), &made, &error), -1);
    print_message("%s\n", error.message);
    assert_non_null(strstr(error.message, first));
    assert_non_null(strstr(error.message, second));
    unmake(&made);
}

static void test_huge_sizes_are_refused(void **state)
{
    (void)state;
    assert_not_made(INT64_MAX, "64 bits", "coefficient");
    assert_not_made(INT64_MAX / DIM, "768614336404564650", "at most");
    assert_not_made(INT64_C(1) << 40, "1099511627776", "at most");
    assert_not_made((INT64_C(1) << 31) - 1, "activations", "bytes");
}

/* ---- Hidden states whose rows are not those of an input ---- */

static const struct tensor_shape vector_shapes[] = {{"table", MARKS, DIM}, {"e", 40, 1}};

/* ids -> embed -> one row, as a vector for /embed */
static void build_vector(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    (void)name, (void)config;
    int ids = plan_input_ids(builder, "ids", MARKS, 40, PLAN_NONE);
    int x = plan_embed(builder, ids, plan_matrix(builder, MARKS, DIM, "table"));
    struct plan_projection mean = {.weight = plan_matrix(builder, 40, 1, "e"), .bias = PLAN_NONE, .groups = 1};
    plan_give(builder, plan_project_sequence(builder, x, mean), PLAN_NONE, PLAN_NONE, false);
    plan_give_vector(builder);
}

static void test_an_output_can_be_one_vector_for_each_item(void **state)
{
    (void)state;
    struct made made;
    struct error error;
    int64_t shape[ENGINE_MAX_RANK];
    const int32_t ids[] = {3, 1, 4, 1, 5};
    double expected[DIM] = {0};
    make(build_vector, vector_shapes, COUNT(vector_shapes), &made);
    assert_true(model_info(made.loaded.model)->gives_vector);
    for (int64_t p = 0; p < 5; p++)
        for (int64_t c = 0; c < DIM; c++)
            expected[c] += (double)floats_of(&made, "e")[p] * (double)floats_of(&made, "table")[ids[p] * DIM + c];
    for (int pooling = 0; pooling < POOLING_COUNT; pooling++) {
        float pooled[DIM], hidden[DIM], output[DIM];
        struct engine_item item = {.inputs = {{.data = ids, .length = 5}},
                                   .pooled = pooled,
                                   .pooling = (enum pooling)pooling,
                                   .hidden = hidden,
                                   .output = output,
                                   .n_rows = 1};
        must(model_check(made.loaded.model, &item, &error), &error);
        assert_int_equal(model_hidden_rows(made.loaded.model, &item), 1);
        assert_int_equal(model_output_shape(made.loaded.model, &item, 0, shape), 1);
        assert_int_equal(shape[0], DIM);
        must(model_run(made.loaded.model, 0, &item, 1, &error), &error);
        assert_near(DIM, pooled, expected);
        assert_near(DIM, hidden, expected);
        assert_near(DIM, output, expected);
    }
    unmake(&made);
}

/* ids (n) with 2 <= n <= 40, and x (7, DIM). A limit restricts n to 3 <= n <= 20. */
static void build_limited(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    (void)name, (void)config;
    int n = plan_size_free(builder, 0, 0, 2, 40), dim = plan_size_constant(builder, DIM);
    int of_ids[] = {n}, of_x[] = {plan_size_constant(builder, 7), dim}, of_y[] = {n, dim};
    int ids = plan_input_tensor(builder, "ids", INPUT_IDS, MARKS, 1, of_ids, 1);
    plan_input_tensor(builder, "x", INPUT_ROWS, 0, 2, of_x, DIM);
    plan_limit_size(builder, (struct plan_size_limit){.size = n, .least = 3, .most = 20, .multiple = 1, .what = "n"});
    plan_add_output(builder, "y", 2, of_y);
    plan_give_tensor(builder, plan_embed(builder, ids, plan_matrix(builder, MARKS, DIM, "table")), 0);
}

/* The limits of dimension 0 of a tensor are also the limits of the input's length. */
static void test_limits_of_dimension_0_limit_the_length(void **state)
{
    (void)state;
    static const struct tensor_shape shapes[] = {{"table", MARKS, DIM}};
    struct made made;
    make(build_limited, shapes, COUNT(shapes), &made);
    const struct model_info *info = model_info(made.loaded.model);
    assert_int_equal(info->inputs[0].min_length, 3);
    assert_int_equal(info->inputs[0].max_length, 20);
    assert_true(info->inputs[0].own_limit);
    assert_int_equal(info->inputs[1].min_length, 7);
    assert_int_equal(info->inputs[1].max_length, 7);
    assert_true(info->inputs[1].own_limit);
    assert_false(info->gives_vector);
    unmake(&made);
}

int main(void)
{
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20261122;
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_of_a_batch_have_the_expected_results),
        cmocka_unit_test(test_outputs_have_their_names_and_shapes),
        cmocka_unit_test(test_wrong_items_are_refused_by_name),
        cmocka_unit_test(test_items_with_folded_sequences_compute_the_same_in_a_batch),
        cmocka_unit_test(test_an_output_can_be_one_number_for_each_item),
        cmocka_unit_test(test_limits_of_dimension_0_limit_the_length),
        cmocka_unit_test(test_an_item_larger_than_a_batch_runs_alone),
        cmocka_unit_test(test_huge_sizes_are_refused),
        cmocka_unit_test(test_an_output_can_be_one_vector_for_each_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
