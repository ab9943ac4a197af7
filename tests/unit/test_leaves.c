/* Tests of classes as leaves: parts of the plan of a larger model. Each reference case is loaded twice: as its class,
 * and as a model that consists of one leaf. family_find() below adds this model to the classes. Both models must give
 * the same bits in every call that both accept. */
#include "engine/families/family.h"
#include "engine/model.h"
#include "tests/unit/loaded.h"
#include "tests/unit/operation_bench.h"
#include "tests/unit/reference_calls.h"
#include "tests/unit/tensors.h"

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES_FOLDER "tests/reference"
#define MIN_CASES 82
#define COUNT(table) (sizeof(table) / sizeof *(table))

/* ---- The model around a leaf ---- */

/* Describes the model that is loaded next. Its leaf has the class of the model `like`, and the model has the inputs of
 * `like`. */
static struct wiring {
    const struct model *like;
    struct plan_leaf leaf; /* class, path, kwargs and padding of the leaf, without inputs */
    bool required_alone;   /* the model has only the required inputs, and the leaf's optional inputs are not bound */
    bool with_glue;        /* glue() adds a step behind each input of floats except images, and behind the leaf */
    bool twice;            /* the output is the mean of two leaves with the same path */
} wiring;

/* Adds an input like that of the whole class, but without its limits, which the leaf must add. `values` contains the
 * values of the inputs that were added before. */
static int add_input(struct plan_builder *builder, const struct plan_input *input, const int *values)
{
    const struct model_input *of = &input->input;
    int value = PLAN_NONE;
    if (of->layout == LAYOUT_IMAGE)
        return plan_input_image(builder, of->name, of->columns);
    if (of->layout == LAYOUT_CHANNELS)
        return plan_input_pixels(builder, of->name, of->columns, of->refused);
    if (of->kind == INPUT_MASK)
        return plan_input_mask(builder, of->name, values[of->like]);
    if (of->like >= 0)
        return plan_input_rows_like(builder, of->name, of->columns, values[of->like], of->fallback);
    if (of->kind == INPUT_IDS)
        value = plan_input_ids(builder, of->name, 0, 0, of->fallback);
    else
        value = plan_input_rows(builder, of->name, of->columns, 0, of->fallback);
    if (of->layout == LAYOUT_CALL)
        plan_call_layout(builder, value);
    return value;
}

/* Adds the step (x + x) / 2, whose result is x. Images must be direct inputs of a leaf, so no step is added for
 * them. */
static int glue(struct plan_builder *builder, int x, enum input_layout layout)
{
    bool has_glue = wiring.with_glue && layout != LAYOUT_IMAGE && layout != LAYOUT_CHANNELS;
    return has_glue && !builder->failed && !plan_value_at(builder, x)->ids ? plan_add(builder, x, x, 0.5f) : x;
}

static bool is_wired(const struct plan_input *input)
{
    return input->value != PLAN_NONE && !(wiring.required_alone && input->input.optional);
}

/* Each leaf has separate glue steps. If two leaves read the same value, they could share more than their weights. */
static int build_leaf(struct plan_builder *builder, const int *values)
{
    const struct plan *like = model_plan(wiring.like);
    struct plan_leaf leaf = wiring.leaf;
    for (int i = 0; i < like->n_inputs; i++) {
        const struct model_input *input = &like->inputs[i].input;
        if (is_wired(&like->inputs[i]) && !input->refused)
            leaf.inputs[leaf.n_inputs++] =
                (struct plan_binding){.name = input->name, .value = glue(builder, values[i], input->layout)};
    }
    return family_build_leaf(builder, &leaf);
}

static void build_around_leaf(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    static const enum padding slice[] = {PADDING_SLICE, PADDING_DEFAULT};
    (void)config;
    plan_choose_padding(builder, name, PADDING_DEFAULT, slice);
    const struct plan *like = model_plan(wiring.like);
    int values[ENGINE_MAX_INPUTS];
    for (int i = 0; i < like->n_inputs; i++)
        values[i] = is_wired(&like->inputs[i]) ? add_input(builder, &like->inputs[i], values) : PLAN_NONE;
    int out = build_leaf(builder, values);
    if (wiring.twice)
        out = plan_add(builder, out, build_leaf(builder, values), 0.5f);
    if (like->inputs[0].input.layout == LAYOUT_IMAGE)
        plan_give_image(builder, out);
    else
        plan_give(builder, glue(builder, out, LAYOUT_SEQUENCE), PLAN_NONE, PLAN_NONE, false);
}

/* Builds the plan of the architecture "by hand". */
static void (*build_by_hand)(struct plan_builder *builder);

static void build_own(struct plan_builder *builder, const char *name, const struct model_config *config)
{
    (void)name, (void)config;
    build_by_hand(builder);
}

static struct engine *open_engine(void)
{
    struct error error;
    struct engine *engine;
    struct engine_options options = {.device = {DEVICE_CPU},
                                     .dtype = DTYPE_F32,
                                     .threads = 2,
                                     .all_threads = true,
                                     .max_batch_tokens = 256,
                                     .max_batch_requests = CALL_ITEMS};
    must(engine_open(&options, &engine, &error), &error);
    return engine;
}

/* Loads the model that `build` builds, with weights of these shapes. Returns -1 if this fails. The caller must call
 * unload after success and after failure. */
static int load_by_hand(void (*build)(struct plan_builder *builder), const struct tensor_shape *shapes, size_t count,
                        struct loaded *loaded, struct error *error)
{
    void *file;
    struct model_config config = {.architecture = (char *)"by hand"};
    struct weights *weights = tensors_random(shapes, count, &file);
    build_by_hand = build;
    loaded->engine = open_engine();
    int status = engine_load(loaded->engine, &config, weights, NULL, NULL, &loaded->model, error);
    weights_close(weights);
    free(file);
    return status;
}

/* This function replaces the one in engine/families/families.c. */
const struct family_class *family_find(const char *architecture, struct error *error)
{
    static const struct family_class around_leaf = {"a leaf", "a leaf", build_around_leaf};
    static const struct family_class own = {"by hand", "by hand", build_own};
    static const struct family *const families[] = {&family_linformer, &family_linear_attention_transformer,
                                                    &family_linformer_pytorch, &family_linear_multihead_attention,
                                                    &family_keras};
    if (strcmp(architecture, own.name) == 0)
        return &own;
    if (strcmp(architecture, around_leaf.name) == 0)
        return &around_leaf;
    for (size_t f = 0; f < COUNT(families); f++)
        for (size_t c = 0; c < families[f]->n_classes; c++)
            if (strcmp(architecture, families[f]->classes[c].name) == 0)
                return &families[f]->classes[c];
    error_set(error, "architecture \"%s\" is not supported", architecture);
    return NULL;
}

/* ---- Reference cases ---- */

/* Adds the entry to `renamed`, with `prefix` before its name. */
static void rename_entry(json_t *renamed, const char *prefix, const char *name, json_t *entry)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    json_object_set(renamed, full, entry);
}

/* Returns the metadata about tied tensors, with `prefix` before all names. The metadata maps further names of a tensor
 * to its name in the file. */
static json_t *rename_aliases(const char *prefix, json_t *header)
{
    json_t *renamed = json_object(), *stored;
    const char *alias;
    json_object_foreach (json_object_get(header, "__metadata__"), alias, stored) {
        char full[512];
        if (!json_object_get(header, json_string_value(stored)))
            continue;
        snprintf(full, sizeof full, "%s%s", prefix, json_string_value(stored));
        json_t *target = json_string(full);
        rename_entry(renamed, prefix, alias, target);
        json_decref(target);
    }
    return renamed;
}

/* Opens the safetensors file with `prefix` before all names of tensors. The caller closes the weights, then frees
 * *file. */
static struct weights *open_renamed(const char *path, const char *prefix, void **file)
{
    struct error error;
    struct weights *weights;
    uint64_t length;
    FILE *stream = fopen(path, "rb");
    assert_non_null(stream);
    assert_int_equal(fread(&length, 1, 8, stream), 8);
    char *text = malloc(length);
    assert_int_equal(fread(text, 1, length, stream), length);
    json_t *header = json_loadb(text, length, 0, NULL), *renamed = json_object(), *tensor;
    size_t data_bytes = 0;
    const char *name;
    json_object_foreach (header, name, tensor) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        rename_entry(renamed, prefix, name, tensor);
        size_t end = (size_t)json_integer_value(json_array_get(json_object_get(tensor, "data_offsets"), 1));
        data_bytes = end > data_bytes ? end : data_bytes;
    }
    json_object_set_new(renamed, "__metadata__", rename_aliases(prefix, header));
    free(text);
    text = json_dumps(renamed, JSON_COMPACT);
    length = (strlen(text) + 7) / 8 * 8;
    char *bytes = malloc(8 + length + data_bytes);
    memcpy(bytes, &length, 8);
    memset(bytes + 8, ' ', length);
    memcpy(bytes + 8, text, strlen(text));
    assert_int_equal(fread(bytes + 8 + length, 1, data_bytes, stream), data_bytes);
    fclose(stream);
    free(text);
    json_decref(header);
    json_decref(renamed);
    must(weights_open_memory(bytes, 8 + length + data_bytes, path, &weights, &error), &error);
    *file = bytes;
    return weights;
}

/* By padding: the number of calls that ran with all inputs bound, and the number of those with only the required inputs
 * bound. */
static int runs[PADDING_EXACT + 1][2];

/* Returns the index of the model's input with this name, or -1 if there is none. */
static int input_named(const struct model *model, const char *name)
{
    for (int i = 0; i < model_info(model)->n_inputs; i++)
        if (strcmp(model_info(model)->inputs[i].name, name) == 0)
            return i;
    return -1;
}

/* Makes the items of the call for the model of the leaf. Returns false if this model lacks one of the items' inputs. */
static bool give_items(const struct model *whole, const struct model *leaf, const struct forward_call *call,
                       struct engine_item *items)
{
    for (int64_t b = 0; b < call->n_items; b++) {
        items[b] = call->items[b];
        memset(items[b].inputs, 0, sizeof items[b].inputs);
        for (int i = 0; i < model_info(whole)->n_inputs; i++) {
            int index = input_named(leaf, model_info(whole)->inputs[i].name);
            if (index < 0 && call->items[b].inputs[i].data)
                return false;
            if (index >= 0)
                items[b].inputs[index] = call->items[b].inputs[i];
        }
    }
    return true;
}

/* Directs the outputs of the items to `found`, which has memory for each output of the call. */
static void give_outputs(const struct forward_call *call, struct engine_item *items,
                         struct engine_extra (*extras)[CALL_OUTPUTS], float **found)
{
    for (int i = 0; i < call->n_outputs; i++)
        memset(found[i], 0, (size_t)call->outputs[i].elements * sizeof *found[i]);
    for (int64_t b = 0; b < call->n_items; b++) {
        items[b].output = found[0] + b * (call->outputs[0].elements / call->n_items);
        items[b].extras = extras[b];
        for (int i = 1; i < call->n_outputs; i++)
            extras[b][i - 1] = (struct engine_extra){
                .output = call->outputs[i].index,
                .data = found[i] + b * (call->outputs[i].elements / call->n_items),
            };
    }
}

static void assert_same(const struct forward_call *call, float **found)
{
    for (int i = 0; i < call->n_outputs; i++)
        assert_memory_equal(found[i], call->outputs[i].found, (size_t)call->outputs[i].elements * sizeof(float));
}

/* Returns whether the class accepts all items. Expects that the leaf accepts the same items. */
static bool both_take(const struct model *whole, const struct model *leaf, const struct forward_call *call,
                      const struct engine_item *items)
{
    struct error error;
    bool all = true;
    for (int64_t b = 0; b < call->n_items; b++) {
        struct engine_item item = items[b];
        item.output = call->items[b].output;
        bool takes = model_check(whole, &call->items[b], &error) == 0;
        assert_int_equal(model_check(leaf, &item, &error) == 0, takes);
        all &= takes;
    }
    return all;
}

/* Runs the whole class, then the leaf with the same items: as a batch, and each item alone. */
static void run_both(struct model *whole, struct model *leaf, struct forward_call *call)
{
    struct error error;
    struct engine_item items[CALL_ITEMS];
    struct engine_extra extras[CALL_ITEMS][CALL_OUTPUTS];
    float *found[CALL_OUTPUTS];
    if (!give_items(whole, leaf, call, items) || !both_take(whole, leaf, call, items))
        return;
    for (int i = 0; i < call->n_outputs; i++)
        found[i] = malloc((size_t)call->outputs[i].elements * sizeof *found[i]);
    must(model_run(whole, 0, call->items, call->n_items, &error), &error);
    give_outputs(call, items, extras, found);
    must(model_run(leaf, 0, items, call->n_items, &error), &error);
    assert_same(call, found);
    give_outputs(call, items, extras, found);
    for (int64_t b = call->n_items - 1; b >= 0; b--)
        must(model_run(leaf, 0, &items[b], 1, &error), &error);
    assert_same(call, found);
    for (int i = 0; i < call->n_outputs; i++)
        free(found[i]);
    runs[wiring.leaf.padding][wiring.required_alone]++;
}

/* Expects that the inputs of the leaf's model have the limits of the class's inputs. */
static void assert_same_limits(const struct model *whole, const struct model *leaf)
{
    for (int i = 0; i < model_info(whole)->n_inputs; i++) {
        int index = input_named(leaf, model_info(whole)->inputs[i].name);
        if (index < 0)
            continue;
        const struct model_input *expected = &model_info(whole)->inputs[i], *found = &model_info(leaf)->inputs[index];
        assert_int_equal(found->vocabulary, expected->vocabulary);
        assert_int_equal(found->min_length, expected->min_length);
        if (expected->own_limit)
            assert_int_equal(found->max_length, expected->max_length);
        if (wiring.leaf.padding != PADDING_AUTOPAD)
            assert_int_equal(found->multiple, expected->multiple);
    }
}

static int count_weights(const struct model *model)
{
    int count = 0;
    for (int i = 0; i < model_plan(model)->n_weights; i++)
        count += model_plan(model)->weights[i].tensor >= 0;
    return count;
}

static struct weights *open_calls(const char *name)
{
    char path[512];
    struct error error;
    struct weights *calls;
    snprintf(path, sizeof path, CASES_FOLDER "/%s/calls.safetensors", name);
    must(weights_open(path, &calls, &error), &error);
    must(weights_read(calls, &error), &error);
    return calls;
}

static void run_calls(const char *name, struct model *whole, struct model *leaf)
{
    struct weights *calls = open_calls(name);
    struct forward_call call;
    for (int index = 0; call_prepare(whole, calls, index, &call); index++) {
        run_both(whole, leaf, &call);
        call_free(&call);
    }
    weights_close(calls);
}

/* If not NULL, these arguments replace the arguments of the same names in the kwargs of the case. */
static json_t *other_kwargs;

static void read_config(const char *name, struct model_config *config)
{
    char path[512];
    struct error error;
    snprintf(path, sizeof path, CASES_FOLDER "/%s/config.json", name);
    must(model_config_read(path, config, &error), &error);
    if (other_kwargs)
        json_object_update(config->kwargs, other_kwargs);
}

/* Loads the case as its class. The caller must call unload. */
static int load_case(const char *name, enum padding padding, struct loaded *loaded, struct error *error)
{
    char path[512];
    struct model_config config;
    struct weights *weights;
    read_config(name, &config);
    config.padding = padding == PADDING_DEFAULT ? config.padding : padding;
    snprintf(path, sizeof path, CASES_FOLDER "/%s/model.safetensors", name);
    must(weights_open(path, &weights, error), error);
    loaded->engine = open_engine();
    int status = engine_load(loaded->engine, &config, weights, NULL, NULL, &loaded->model, error);
    weights_close(weights);
    model_config_free(&config);
    return status;
}

/* Loads the case as a leaf of a model with the inputs of wiring.like. */
static struct model *load_leaf(const char *name, const char *leaf_path, struct engine *engine)
{
    struct error error;
    char path[512], prefix[64];
    void *file = NULL;
    struct model_config config;
    struct model *model;
    read_config(name, &config);
    char *class_name = config.architecture;
    wiring.leaf = (struct plan_leaf){.class_name = class_name,
                                     .path = leaf_path,
                                     .kwargs = config.kwargs,
                                     .padding = model_plan(wiring.like)->padding};
    config.architecture = (char *)"a leaf";
    config.padding = PADDING_DEFAULT;
    snprintf(prefix, sizeof prefix, "%s%s", leaf_path, *leaf_path ? "." : "");
    snprintf(path, sizeof path, CASES_FOLDER "/%s/model.safetensors", name);
    struct weights *weights = open_renamed(path, prefix, &file);
    must(engine_load(engine, &config, weights, NULL, NULL, &model, &error), &error);
    weights_close(weights);
    free(file);
    config.architecture = class_name;
    model_config_free(&config);
    return model;
}

/* Compares the case as its class with the case as a leaf. `asked` is the wiring without `like` and `leaf`. The names of
 * the leaf's tensors begin with `path`. PADDING_DEFAULT means the padding of the case. The class may not support
 * another padding. In this case, nothing is compared. */
static void compare_leaf(const char *name, const char *path, enum padding padding, struct wiring asked)
{
    struct loaded whole = {.engine = NULL};
    struct error error;
    if (load_case(name, padding, &whole, &error) == 0) {
        print_message("%s, path \"%s\", padding %s%s%s%s\n", name, path, model_info(whole.model)->padding,
                      asked.required_alone ? ", required inputs alone" : "", asked.with_glue ? ", with glue" : "",
                      asked.twice ? ", twice" : "");
        wiring = asked;
        wiring.like = whole.model;
        struct model *leaf = load_leaf(name, path, whole.engine);
        assert_same_limits(whole.model, leaf);
        assert_int_equal(count_weights(leaf), count_weights(whole.model));
        assert_int_equal(model_plan(leaf)->n_attentions,
                         model_plan(whole.model)->n_attentions * (wiring.twice ? 2 : 1));
        run_calls(name, whole.model, leaf);
        model_close(leaf);
    } else if (padding == PADDING_DEFAULT) {
        fail_msg("%s", error.message);
    }
    unload(&whole);
}

static void test_case(void **state)
{
    const char *name = *state;
    compare_leaf(name, "", PADDING_DEFAULT, (struct wiring){.twice = false});
    compare_leaf(name, "encoder.net", PADDING_DEFAULT, (struct wiring){.required_alone = true});
    compare_leaf(name, "net", PADDING_DEFAULT, (struct wiring){.with_glue = true});
    for (int padding = PADDING_SLICE; padding <= PADDING_EXACT; padding++)
        compare_leaf(name, "net", (enum padding)padding, (struct wiring){.required_alone = padding % 2 == 0});
    compare_leaf(name, "net", PADDING_DEFAULT,
                 (struct wiring){.twice = true, .required_alone = true, .with_glue = true});
}

/* Every padding was tested. This test runs after all cases. */
static void test_every_padding_ran(void **state)
{
    (void)state;
    for (int padding = 0; padding <= PADDING_EXACT; padding++) {
        print_message("%s: %d calls with all inputs bound, %d with those that must be\n",
                      padding_name((enum padding)padding), runs[padding][0], runs[padding][1]);
        if (padding != PADDING_DEFAULT)
            assert_true(runs[padding][0] + runs[padding][1] > 0);
    }
}

/* ---- Limits ---- */

/* Checks items of ids with every length up to `most` + 1. The leaf must accept the same lengths as the class. Returns
 * the number of accepted lengths. */
static int compare_lengths(const struct model *whole, const struct model *leaf, int64_t most)
{
    int taken = 0;
    int32_t *ids = calloc((size_t)most + 1, sizeof *ids);
    for (int64_t length = 1; length <= most + 1; length++) {
        struct error error;
        struct engine_item item = {.inputs[0] = {.data = ids, .length = length}};
        bool takes = model_check(whole, &item, &error) == 0;
        assert_int_equal(model_check(leaf, &item, &error) == 0, takes);
        if (!takes && length < most)
            assert_non_null(strstr(error.message, "multiple of 48"));
        taken += takes;
    }
    free(ids);
    return taken;
}

/* The class pads to multiples of 24, but its axial layers also need multiples of 16. */
static void test_lengths_are_refused_if_the_class_pads_too_little(void **state)
{
    (void)state;
    static const char name[] = "linear_attention_lm_axial";
    struct loaded whole = {.engine = NULL};
    struct error error;
    other_kwargs = json_pack("{s:b, s:i}", "causal", 1, "blindspot_size", 24);
    must(load_case(name, PADDING_DEFAULT, &whole, &error), &error);
    wiring = (struct wiring){.like = whole.model};
    struct model *leaf = load_leaf(name, "net", whole.engine);
    assert_int_equal(compare_lengths(whole.model, leaf, 48), 24);
    json_decref(other_kwargs);
    other_kwargs = NULL;
    model_close(leaf);
    unload(&whole);
}

/* ---- Leaves over a fixed number of rows ---- */

#define TOLERANCE 1e-5
#define DIM 12
#define ROWS 20

static json_t *kwargs;

static int bind(struct plan_leaf *leaf, const char *name, int value)
{
    leaf->inputs[leaf->n_inputs++] = (struct plan_binding){.name = name, .value = value};
    return value;
}

/* Projects every sequence of x to ROWS rows. */
static int project(struct plan_builder *builder, int x)
{
    struct plan_projection e = {.weight = plan_matrix(builder, 40, ROWS, "e"), .bias = PLAN_NONE, .groups = 1};
    return plan_project_sequence(builder, x, e);
}

/* Adds an attention of the rows of x to `keys`. Its result is the output of the model. */
static void give_attended(struct plan_builder *builder, int x, int keys)
{
    int y = plan_attend(builder, x, keys, keys, (struct plan_attention){.heads = 1, .kv_heads = 1, .scale = 0.5f});
    plan_give(builder, y, PLAN_NONE, PLAN_NONE, false);
}

/* A leaf over a fixed number of rows. The attention weights of the leaf, which are also outputs, have this number of
 * rows. */
static void test_a_leaf_over_a_fixed_number_of_rows_is_correct(void **state)
{
    (void)state;
    static const struct tensor_shape shapes[] = {
        {"e", 40, ROWS},
        {"net.to_q.weight", DIM, DIM},
        {"net.to_k.weight", DIM, DIM},
        {"net.to_v.weight", DIM, DIM},
        {"net.proj_k", 32, 5},
        {"net.proj_v", 32, 5},
        {"net.to_out.weight", DIM, DIM},
        {"net.to_out.bias", 0, DIM},
    };
    struct bench bench;
    bench_tolerance = TOLERANCE;
    kwargs = json_pack("{s:i, s:i, s:i, s:i}", "dim", DIM, "seq_len", 32, "k", 5, "heads", 2);
    struct plan_leaf leaf = {.class_name = "linformer.LinformerSelfAttention", .path = "net", .kwargs = kwargs};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", DIM, 40, PLAN_NONE);
    bind(&leaf, "x", project(builder, x));
    give_attended(builder, x, family_build_leaf(builder, &leaf));
    bench_run(&bench);
    json_decref(kwargs);
}

/* The leaf pads 20 rows to 24. It makes a mask that hides the padding, because no mask is bound. */
static void test_a_leaf_masks_the_padding_of_its_fixed_rows(void **state)
{
    (void)state;
    static const struct tensor_shape shapes[] = {
        {"e", 40, ROWS},
        {"net.layers.layers.0.0.norm.weight", 0, DIM},
        {"net.layers.layers.0.0.norm.bias", 0, DIM},
        {"net.layers.layers.0.0.fn.to_q.weight", DIM, DIM},
        {"net.layers.layers.0.0.fn.to_k.weight", DIM, DIM},
        {"net.layers.layers.0.0.fn.to_v.weight", DIM, DIM},
        {"net.layers.layers.0.0.fn.to_out.weight", DIM, DIM},
        {"net.layers.layers.0.0.fn.to_out.bias", 0, DIM},
        {"net.layers.layers.0.1.norm.weight", 0, DIM},
        {"net.layers.layers.0.1.norm.bias", 0, DIM},
        {"net.layers.layers.0.1.fn.fn.w1.weight", 4 * DIM, DIM},
        {"net.layers.layers.0.1.fn.fn.w1.bias", 0, 4 * DIM},
        {"net.layers.layers.0.1.fn.fn.w2.weight", DIM, 4 * DIM},
        {"net.layers.layers.0.1.fn.fn.w2.bias", 0, DIM},
    };
    struct bench bench;
    bench_tolerance = TOLERANCE;
    kwargs = json_pack("{s:i, s:i, s:i, s:i, s:i, s:i}", "dim", DIM, "depth", 1, "max_seq_len", 64, "heads", 3,
                       "n_local_attn_heads", 1, "local_attn_window_size", 8);
    struct plan_leaf leaf = {
        .class_name = "linear_attention_transformer.LinearAttentionTransformer", .path = "net", .kwargs = kwargs};
    struct plan_builder *builder = bench_begin(&bench, shapes, COUNT(shapes));
    int x = plan_input_rows(builder, "x", DIM, 40, PLAN_NONE);
    bind(&leaf, "x", project(builder, x));
    int y = family_build_leaf(builder, &leaf), padded = 0;
    for (int i = 0; i < builder->plan->n_values; i++)
        padded += plan_value_rows(builder->plan, i, 1) == 24;
    assert_true(padded > 0);
    give_attended(builder, x, y);
    bench_run(&bench);
    json_decref(kwargs);
}

/* ---- What is refused ---- */

/* Each function adds inputs to a model, and binds some of them to a leaf of linformer.LinformerSelfAttention. Some
 * functions change the leaf. */
static void bind_nothing(struct plan_builder *builder, struct plan_leaf *leaf)
{
    (void)builder, (void)leaf;
}

static int bind_x(struct plan_builder *builder, struct plan_leaf *leaf, int64_t columns)
{
    return bind(leaf, "x", plan_input_rows(builder, "x", columns, 0, PLAN_NONE));
}

static void bind_rows(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_x(builder, leaf, DIM);
}

static void bind_wide_rows(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_x(builder, leaf, DIM + 1);
}

static void bind_ids(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind(leaf, "x", plan_input_ids(builder, "x", 10, 0, PLAN_NONE));
}

static void bind_twice(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind(leaf, "x", bind_x(builder, leaf, DIM));
}

static void bind_projected(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind(leaf, "x", project(builder, plan_input_rows(builder, "x", DIM, 40, PLAN_NONE)));
}

static void take_unknown_class(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_rows(builder, leaf);
    leaf->class_name = "numpy.ndarray";
}

static void take_itself(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_rows(builder, leaf);
    leaf->class_name = "by hand";
}

static void take_no_kwargs(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_rows(builder, leaf);
    leaf->kwargs = NULL;
}

static void take_long_path(struct plan_builder *builder, struct plan_leaf *leaf)
{
    static char path[300];
    memset(path, 'p', sizeof path - 1);
    bind_rows(builder, leaf);
    leaf->path = path;
}

static void take_other_padding(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_rows(builder, leaf);
    leaf->padding = PADDING_ZERO;
}

static void set_kwargs(struct plan_leaf *leaf, const char *class_name, json_t *arguments)
{
    json_object_clear(kwargs);
    json_object_update(kwargs, arguments);
    json_decref(arguments);
    leaf->class_name = class_name;
}

/* Changes the class of the leaf to linformer.Linformer without layers, which has no tensors. */
static void set_linformer(struct plan_leaf *leaf, int seq_len)
{
    set_kwargs(leaf, "linformer.Linformer",
               json_pack("{s:i, s:i, s:i, s:i}", "dim", DIM, "seq_len", seq_len, "depth", 0, "heads", 2));
}

static void bind_other_name(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind(leaf, "mask", bind_x(builder, leaf, DIM));
    set_linformer(leaf, 32);
}

static void take_two_lengths(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_rows(builder, leaf);
    leaf->padding = PADDING_EXACT;
    set_linformer(leaf, 16);
    family_build_leaf(builder, leaf);
    set_linformer(leaf, 32);
}

static void take_language_model(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_rows(builder, leaf);
    set_kwargs(
        leaf, "linformer.LinformerLM",
        json_pack("{s:i, s:i, s:i, s:i, s:i}", "dim", DIM, "seq_len", 32, "depth", 1, "num_tokens", 9, "heads", 2));
}

/* Binds a mask to an input of ids. */
static void take_mask_for_ids(struct plan_builder *builder, struct plan_leaf *leaf)
{
    int rows = plan_input_rows(builder, "rows", DIM, 0, PLAN_NONE);
    bind(leaf, "x", plan_input_mask(builder, "mask", rows));
    set_kwargs(
        leaf, "linformer.LinformerLM",
        json_pack("{s:i, s:i, s:i, s:i, s:i}", "dim", DIM, "seq_len", 32, "depth", 1, "num_tokens", 9, "heads", 2));
}

static void take_mask_of_others(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_rows(builder, leaf);
    int other = plan_input_rows(builder, "other", DIM, 0, PLAN_NONE);
    bind(leaf, "input_mask", plan_input_mask(builder, "mask", other));
    set_kwargs(leaf, "linear_attention_transformer.LinearAttentionTransformer",
               json_pack("{s:i, s:i, s:i, s:i}", "dim", DIM, "depth", 1, "max_seq_len", 64, "heads", 3));
}

static void take_image_class(struct plan_builder *builder, struct plan_leaf *leaf)
{
    bind_rows(builder, leaf);
    set_kwargs(leaf, "linear_attention_transformer.ImageLinearAttention",
               json_pack("{s:i, s:i, s:i}", "chan", DIM, "kernel_size", 3, "padding", 1));
}

static void take_call_class(struct plan_builder *builder, struct plan_leaf *leaf)
{
    int rows = plan_input_rows(builder, "rows", DIM, 0, PLAN_NONE);
    bind(leaf, "query", rows);
    bind(leaf, "key", rows);
    bind(leaf, "value", rows);
    set_kwargs(leaf, "linear_multihead_attention.LinearMultiheadAttention",
               json_pack("{s:i, s:i}", "embed_dim", DIM, "num_heads", 2));
}

static void take_score_mask(struct plan_builder *builder, struct plan_leaf *leaf)
{
    int rows = plan_input_rows(builder, "rows", DIM, 0, PLAN_NONE);
    plan_call_layout(builder, rows);
    bind(leaf, "query", rows);
    bind(leaf, "key", rows);
    bind(leaf, "value", rows);
    bind(leaf, "attn_mask", rows);
    set_kwargs(leaf, "linear_multihead_attention.LinearMultiheadAttention",
               json_pack("{s:i, s:i, s:i, s:i}", "embed_dim", DIM, "num_heads", 2, "seq_len", 16, "proj_k", 16));
}

static struct refusal {
    void (*bind)(struct plan_builder *builder, struct plan_leaf *leaf);
    int64_t seq_len;
    const char *first, *second; /* both texts must be in the message */
} refusal;

static void build_refused(struct plan_builder *builder)
{
    struct plan_leaf leaf = {.class_name = "linformer.LinformerSelfAttention", .path = "a.leaf", .kwargs = kwargs};
    refusal.bind(builder, &leaf);
    plan_give(builder, family_build_leaf(builder, &leaf), PLAN_NONE, PLAN_NONE, false);
}

static void test_wrong_leaves_are_refused_by_name(void **state)
{
    (void)state;
    static const struct tensor_shape shapes[] = {{"e", 40, ROWS}};
    static const struct refusal refusals[] = {
        {bind_nothing, 32, "\"a.leaf\": ", "input \"x\" of the class is missing in the node's \"inputs\""},
        {bind_rows, 32, "\"a.leaf\": ", "tensor \"a.leaf.to_q.weight\" [12, 12] is missing"},
        {bind_wide_rows, 32, "\"a.leaf\": input \"x\": ", "expected 12 columns, found 13"},
        {bind_ids, 32, "\"a.leaf\": input \"x\": ", "expected floats, found ids"},
        {bind_twice, 32, "\"a.leaf\": ", "input \"x\" is bound twice"},
        {bind_other_name, 32, "\"a.leaf\": ", "has no input \"mask\" with these kwargs; expected x"},
        {take_two_lengths, 32, "\"a.leaf\": ", "no length of input \"x\" satisfies all limits of the model"},
        {bind_projected, 16, "the length of input \"context\" of \"a.leaf\" is 20", "expected 1 to 16"},
        {take_unknown_class, 32, "\"a.leaf\": ", "\"numpy.ndarray\" is not supported"},
        {take_itself, 32, "\"a.leaf\": ", "a leaf cannot contain another leaf"},
        {take_no_kwargs, 32, "\"a.leaf\": ", "kwargs: expected an object"},
        {take_long_path, 32, "\"pppp", "the path is longer than"},
        {take_other_padding, 32, "\"a.leaf\": padding \"zero\"", "accepts slice or exact"},
        {take_language_model, 32, "\"a.leaf\": input \"x\"", "expected ids, found floats"},
        {take_mask_for_ids, 32, "\"a.leaf\": input \"x\"",
         "expected ids that come unchanged from an input of the module"},
        {take_mask_of_others, 32, "\"a.leaf\": input \"input_mask\"", "expected the same length"},
        {take_image_class, 32, "\"a.leaf\": input \"x\"", "expected an image that is an input"},
        {take_call_class, 32, "\"a.leaf\": ", "accepts only whole calls"},
        {take_score_mask, 32, "\"a.leaf\": input \"attn_mask\"", "mask of attention scores"},
    };
    for (size_t i = 0; i < COUNT(refusals); i++) {
        struct loaded loaded = {.engine = NULL};
        struct error error = {""};
        refusal = refusals[i];
        kwargs =
            json_pack("{s:i, s:I, s:i, s:i}", "dim", DIM, "seq_len", (json_int_t)refusal.seq_len, "k", 5, "heads", 2);
        assert_int_equal(load_by_hand(build_refused, shapes, COUNT(shapes), &loaded, &error), -1);
        print_message("%s\n", error.message);
        assert_non_null(strstr(error.message, refusal.first));
        assert_non_null(strstr(error.message, refusal.second));
        unload(&loaded);
        json_decref(kwargs);
    }
}

static int is_case(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !strchr(entry->d_name, '.');
}

int main(void)
{
    struct dirent **entries;
    int count = scandir(CASES_FOLDER, &entries, is_case, alphasort);
    if (count < MIN_CASES) {
        fprintf(stderr, "%d cases in " CASES_FOLDER ", expected %d: run from the root of the repository\n", count,
                MIN_CASES);
        return 1;
    }
    const struct CMUnitTest others[] = {
        cmocka_unit_test(test_every_padding_ran),
        cmocka_unit_test(test_lengths_are_refused_if_the_class_pads_too_little),
        cmocka_unit_test(test_a_leaf_over_a_fixed_number_of_rows_is_correct),
        cmocka_unit_test(test_a_leaf_masks_the_padding_of_its_fixed_rows),
        cmocka_unit_test(test_wrong_leaves_are_refused_by_name),
    };
    struct CMUnitTest *tests = calloc((size_t)count + COUNT(others), sizeof *tests);
    for (int i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){entries[i]->d_name, test_case, NULL, NULL, entries[i]->d_name};
    memcpy(tests + count, others, sizeof others);
    int failed = _cmocka_run_group_tests("leaves", tests, (size_t)count + COUNT(others), NULL, NULL);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    free(tests);
    return failed;
}
