/* Tests of what the engine refuses, of its messages, of --explain, and of the number of threads. */
#include "engine/cpu/vector.h"
#include "engine/engine.h"
#include "engine/families/family.h"
#include "tests/unit/tensors.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ATTENTION "linformer.LinformerSelfAttention"
#define ATTENTION_KWARGS "{\"dim\": 8, \"seq_len\": 6, \"k\": 3, \"heads\": 2}"

static const struct tensor_shape attention_shapes[] = {
    {"proj_k", 6, 3},        {"proj_v", 6, 3},      {"to_k.weight", 8, 8}, {"to_out.bias", 0, 8},
    {"to_out.weight", 8, 8}, {"to_q.weight", 8, 8}, {"to_v.weight", 8, 8},
};
#define N_SHAPES (sizeof attention_shapes / sizeof *attention_shapes)

static struct engine *open_engine(void)
{
    struct engine *engine;
    struct error error;
    struct engine_options options = {
        .device = {DEVICE_CPU}, .dtype = DTYPE_AUTO, .max_batch_tokens = 32, .max_batch_requests = 4};
    if (engine_open(&options, &engine, &error) != 0)
        fail_msg("%s", error.message);
    return engine;
}

static void parse_config(const char *architecture, const char *kwargs, const char *rest, struct model_config *config)
{
    char text[512];
    struct error error;
    snprintf(text, sizeof text, "{\"architecture\": \"%s\", \"kwargs\": %s%s}", architecture, kwargs, rest);
    if (model_config_parse(text, strlen(text), "config.json", config, &error) != 0)
        fail_msg("%s", error.message);
}

/* Expects that loading fails, with a message that contains each of the words. */
static void assert_refused(const struct tensor_shape *shapes, size_t count, const char *architecture,
                           const char *kwargs, const char *rest, const char *first, const char *second)
{
    struct engine *engine = open_engine();
    void *file;
    struct weights *weights = tensors_random(shapes, count, &file);
    struct model_config config;
    struct model *model;
    struct error error = {""};
    parse_config(architecture, kwargs, rest, &config);
    assert_int_equal(engine_load(engine, &config, weights, NULL, NULL, &model, &error), -1);
    print_message("%s\n", error.message);
    assert_non_null(strstr(error.message, first));
    assert_non_null(strstr(error.message, second));
    model_config_free(&config);
    weights_close(weights);
    free(file);
    engine_close(engine);
}

static void unusable_devices_and_dtypes_are_refused(void **state)
{
    (void)state;
    struct engine *engine;
    struct error error;
    struct engine_options options = {
        .device = {DEVICE_CUDA}, .dtype = DTYPE_AUTO, .max_batch_tokens = 1, .max_batch_requests = 1};
    assert_int_equal(engine_open(&options, &engine, &error), -1); /* the driver or the CUDA engine is missing */
    assert_non_null(strstr(error.message, "device \"cuda\": "));
    options.device.kind = DEVICE_AUTO;
    assert_int_equal(engine_open(&options, &engine, &error), 0);
    assert_string_equal(engine_device(engine), "cpu");
    assert_non_null(engine_notice(engine));
    engine_close(engine);
    options.device.kind = DEVICE_CPU;
    assert_int_equal(engine_open(&options, &engine, &error), 0);
    assert_null(engine_notice(engine));
    engine_close(engine);
    options.dtype = DTYPE_F16;
    assert_int_equal(engine_open(&options, &engine, &error), -1);
    assert_non_null(strstr(error.message, "f16"));
    options.device.kind = DEVICE_AUTO;
    assert_int_equal(engine_open(&options, &engine, &error), -1);
    assert_non_null(strstr(error.message, "expected auto, f32 or bf16 on the CPU; CUDA is not used: "));
}

static void wrong_tensors_are_refused_by_name(void **state)
{
    (void)state;
    struct tensor_shape shapes[N_SHAPES + 1];
    memcpy(shapes, attention_shapes, sizeof attention_shapes);
    assert_refused(shapes + 1, N_SHAPES - 1, ATTENTION, ATTENTION_KWARGS, "", "\"proj_k\" [6, 3]", "missing");
    shapes[2].name = "to_key.weight";
    assert_refused(shapes, N_SHAPES, ATTENTION, ATTENTION_KWARGS, "", "\"to_k.weight\" [8, 8]", "missing");
    shapes[2].name = "module.to_k.weight";
    assert_refused(shapes, N_SHAPES, ATTENTION, ATTENTION_KWARGS, "", "\"to_k.weight\" [8, 8] is missing",
                   "; the file has \"module.to_k.weight\" [8, 8]");
    shapes[2].name = "to_k.weight";
    shapes[0] = (struct tensor_shape){"proj_k", 3, 6};
    assert_refused(shapes, N_SHAPES, ATTENTION, ATTENTION_KWARGS, "", "expected shape [6, 3]", "found [3, 6]");
    shapes[0] = attention_shapes[0];
    shapes[3] = (struct tensor_shape){"to_out.bias", 1, 8};
    assert_refused(shapes, N_SHAPES, ATTENTION, ATTENTION_KWARGS, "", "expected shape [8]", "found [1, 8]");
    shapes[3] = attention_shapes[3];
    shapes[N_SHAPES] = (struct tensor_shape){"to_q.bias", 0, 8};
    assert_refused(shapes, N_SHAPES + 1, ATTENTION, ATTENTION_KWARGS, "", "\"to_q.bias\" [8]", "has no counterpart");
}

static void wrong_classes_and_arguments_are_refused_by_name(void **state)
{
    (void)state;
    const struct tensor_shape *shapes = attention_shapes;
    assert_refused(shapes, N_SHAPES, "linformer.Linfromer", "{}", "", "Linfromer", "linformer.LinformerLM");
    assert_refused(shapes, N_SHAPES, ATTENTION, "{\"dim\": 8, \"seq_len\": 6, \"dropuot\": 0}", "", "dropuot",
                   "dropout");
    assert_refused(shapes, N_SHAPES, ATTENTION, "{\"dim\": 8}", "", "seq_len", ATTENTION);
    assert_refused(shapes, N_SHAPES, ATTENTION, "{\"dim\": 8, \"seq_len\": 6, \"heads\": 3}", "", "dim 8", "heads 3");
    assert_refused(shapes, N_SHAPES, ATTENTION, ATTENTION_KWARGS, ", \"padding\": \"masked\"", "masked",
                   "slice or exact");
    assert_refused(shapes, N_SHAPES, "linear_attention_transformer.LinearAttentionTransformerLM",
                   "{\"num_tokens\": 5, \"dim\": 8, \"depth\": 1, \"max_seq_len\": 6, \"causal\": true, "
                   "\"linformer_settings\": {\"k\": 3}}",
                   "", "causal", "linformer_settings");
}

/* The message lists all classes, even behind a prefix with a very long name of a model. */
static void the_error_of_an_unknown_class_lists_all_classes(void **state)
{
    (void)state;
    const struct family *const families[] = {&family_linformer, &family_linear_attention_transformer,
                                             &family_linformer_pytorch, &family_linear_multihead_attention,
                                             &family_keras};
    char long_name[300] = "";
    struct error error;
    memset(long_name, 'x', sizeof long_name - 1);
    assert_null(family_find(long_name, &error));
    error_prefix(&error, "model %s", long_name);
    for (size_t f = 0; f < sizeof families / sizeof *families; f++)
        for (size_t c = 0; c < families[f]->n_classes; c++)
            if (!strstr(error.message, families[f]->classes[c].name))
                fail_msg("%s is not in: %s", families[f]->classes[c].name, error.message);
}

#define LINEAR "linear_attention_transformer.LinearAttentionTransformerLM"
#define LINEAR_KWARGS(more) "{\"num_tokens\": 5, \"dim\": 6, \"depth\": 2, \"max_seq_len\": 12, \"heads\": 2, " more "}"

/* Arguments with which the constructor of linear_attention_transformer fails, and a padding that the class does not
 * allow. */
static void wrong_arguments_of_linear_attention_are_refused(void **state)
{
    (void)state;
    const struct tensor_shape *shapes = attention_shapes;
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"n_local_attn_heads\": [1]"), "", "1 entries",
                   "expected 2, the depth");
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"deepth\": 2"), "", "unknown argument \"deepth\"",
                   ", use_axial_pos_emb, use_rotary_emb"); /* the last arguments in the list of known arguments */
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"n_local_attn_heads\": 3"), "", "n_local_attn_heads",
                   "to 2, the number of heads");
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"n_local_attn_heads\": 1"), "", "max_seq_len 12",
                   "local_attn_window_size 128");
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"use_rotary_emb\": true, \"dim_head\": null"), "",
                   "use_rotary_emb", "dim_head");
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"use_rotary_emb\": true, \"attend_axially\": true"), "",
                   "use_rotary_emb", "attend_axially");
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"return_embeddings\": true, \"emb_dim\": 4"), "",
                   "return_embeddings", "emb_dim 4");
    assert_refused(shapes, N_SHAPES, LINEAR,
                   LINEAR_KWARGS("\"causal\": true, \"blindspot_size\": 16, \"use_axial_pos_emb\": false"), "",
                   "multiples of 16", "max_seq_len 12");
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"causal\": true"), ", \"padding\": \"slice\"", "slice",
                   "autopad or exact");
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"ff_chunks\": 0"), "", "ff_chunks", "found 0");
    assert_refused(shapes, N_SHAPES, LINEAR, LINEAR_KWARGS("\"linformer_settings\": {}"), "", "linformer_settings",
                   "argument k is missing");
    assert_refused(shapes, N_SHAPES, "linear_attention_transformer.EncoderDecoder",
                   "{\"enc\": " LINEAR_KWARGS("\"return_embeddings\": true") ", \"dec\": " LINEAR_KWARGS(
                       "\"n_local_attn_heads\": 3") "}",
                   "", "EncoderDecoder: dec: n_local_attn_heads", "to 2, the number of heads");
}

#define ENC_DEC "linformer_pytorch.LinformerEncDec"
#define SIDE(side) "\"" side "_num_tokens\": 5, \"" side "_input_size\": 6, \"" side "_channels\": 8, "
#define MH_ATTENTION "linformer_pytorch.MHAttention"

/* Arguments with which the constructor of linformer_pytorch fails. */
static void wrong_arguments_of_linformer_pytorch_are_refused(void **state)
{
    (void)state;
    const struct tensor_shape *shapes = attention_shapes;
    assert_refused(shapes, N_SHAPES, "linformer_pytorch.Linformer",
                   "{\"input_size\": 6, \"channels\": 8, \"dim_k\": 3, \"nhead\": 3}", "", "channels 8", "nhead 3");
    static const struct {
        const char *more, *first, *second;
    } refused[] = {
        {"\"checkpoint_level\": \"C2\"", "checkpoint_level", "embeddings"},
        {"\"enc_emb_dim\": 4", "(6, 4)", "(6, 8)"},
        {"\"enc_causal\": true", "enc_*", "unknown argument \"causal\""},
        {"\"decoder_mode\": true", "arguments without enc_ or dec_", "unknown argument \"decoder_mode\""},
        {"\"dec_dim_k\": 0", "dec_*", "argument dim_k"},
        {"\"dec_ff_intermediate\": 4, \"dec_parameter_sharing\": \"kv\"", "dec_*", "ff_intermediate"},
        {"\"enc_dropout\": 2", "enc_*", "from 0 to 1"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char kwargs[400];
        snprintf(kwargs, sizeof kwargs, "{" SIDE("enc") SIDE("dec") "%s}", refused[i].more);
        assert_refused(shapes, N_SHAPES, ENC_DEC, kwargs, "", refused[i].first, refused[i].second);
    }
}

/* The caller passes E and F to the constructor of MHAttention. With "layerwise", all heads use the same E and the same
 * F, but E and F may differ. */
static void different_e_and_f_of_the_caller_are_accepted(void **state)
{
    (void)state;
    const struct tensor_shape shapes[] = {
        {"heads.0.E.bias", 0, 3},   {"heads.0.E.weight", 3, 6}, {"heads.0.F.bias", 0, 3},
        {"heads.0.F.weight", 3, 6}, {"to_k.0.weight", 4, 8},    {"to_q.0.weight", 4, 8},
        {"to_v.0.weight", 4, 8},    {"w_o.bias", 0, 8},         {"w_o.weight", 8, 4},
    };
    struct engine *engine = open_engine();
    void *file;
    struct weights *weights = tensors_random(shapes, sizeof shapes / sizeof *shapes, &file);
    struct model_config config;
    struct model *model;
    struct error error = {""};
    parse_config(MH_ATTENTION,
                 "{\"input_size\": 6, \"dim\": 4, \"channels\": 8, \"dim_k\": 3, \"nhead\": 1, \"checkpoint_level\": "
                 "\"C0\", \"parameter_sharing\": \"layerwise\", \"full_attention\": false}",
                 "", &config);
    if (engine_load(engine, &config, weights, NULL, NULL, &model, &error) != 0)
        fail_msg("%s", error.message);
    model_close(model);
    model_config_free(&config);
    weights_close(weights);
    free(file);
    engine_close(engine);
}

/* ---- Items ---- */

static struct model *load_attention(struct engine *engine, const char *rest)
{
    void *file;
    struct weights *weights = tensors_random(attention_shapes, N_SHAPES, &file);
    struct model_config config;
    struct model *model;
    struct error error;
    parse_config(ATTENTION, ATTENTION_KWARGS, rest, &config);
    if (engine_load(engine, &config, weights, NULL, NULL, &model, &error) != 0)
        fail_msg("%s", error.message);
    model_config_free(&config);
    weights_close(weights);
    free(file);
    return model;
}

static void assert_bad_item(const struct model *model, const struct engine_item *item, const char *words)
{
    struct error error = {""};
    assert_int_equal(model_check(model, item, &error), -1);
    print_message("%s\n", error.message);
    assert_non_null(strstr(error.message, words));
}

static void wrong_items_are_refused(void **state)
{
    (void)state;
    struct engine *engine = open_engine();
    struct model *model = load_attention(engine, "");
    struct error error;
    static float rows[40 * 8], output[40 * 8];
    int32_t wanted[] = {0, 7};
    struct engine_item item = {0};
    assert_bad_item(model, &item, "\"x\" is missing");
    item.inputs[0].data = rows;
    assert_bad_item(model, &item, "\"x\" is empty");
    item.inputs[0].length = 7;
    assert_bad_item(model, &item, "\"context\" (missing, replaced by \"x\") has 7 rows; the model accepts at most 6");
    item.inputs[1].data = rows;
    item.inputs[1].length = 2;
    assert_int_equal(model_check(model, &item, &error), 0);
    assert_int_equal(model_item_tokens(model, &item), 7);
    item.inputs[0].length = 33;
    /* the limit follows from the arena, because this class does not limit the length of "x" */
    assert_bad_item(model, &item, "\"x\" has 33 rows; this server accepts at most 32 (--max-batch-tokens)");
    item.inputs[0].length = 7;
    item.output = output;
    assert_bad_item(model, &item, "0 rows of the output are requested; the output has 7");
    item.rows = wanted;
    item.n_rows = 2;
    assert_bad_item(model, &item, "positions[1] is 7");
    item.n_rows = 1;
    item.top_k = 9;
    assert_bad_item(model, &item, "top_k is 9; expected 1 to 8");
    item.top_k = 0;
    item.targets = (const int32_t[]){8};
    assert_bad_item(model, &item, "position 0 has the target 8; the output has logits for ids 0 to 7");
    item.targets = (const int32_t[]){-2};
    assert_bad_item(model, &item, "position 0 has the target -2; the output has logits for ids 0 to 7");
    model_close(model);
    engine_close(engine);
}

static struct model *load_case(struct engine *engine, const char *folder)
{
    char path[256];
    struct model_config config;
    struct weights *weights;
    struct model *model;
    struct error error;
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (model_config_read(path, &config, &error) != 0)
        fail_msg("%s", error.message);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    if (weights_open(path, &weights, &error) != 0)
        fail_msg("%s", error.message);
    if (engine_load(engine, &config, weights, NULL, NULL, &model, &error) != 0)
        fail_msg("%s", error.message);
    model_config_free(&config);
    weights_close(weights);
    return model;
}

/* Axial layers fold whole windows of 16 rows, so other lengths are refused. Local heads pad to whole windows, and the
 * padding counts as tokens. */
static void rows_must_fill_whole_windows(void **state)
{
    (void)state;
    static const int32_t x[65];
    struct engine *engine = open_engine();
    struct engine_item item = {.inputs[0] = {.data = x, .length = 20}};
    struct error error;
    struct model *model = load_case(engine, "tests/reference/linear_attention_lm_axial");
    assert_bad_item(model, &item, "20 rows (20 with padding); the model accepts multiples of 16");
    item.inputs[0].length = 32;
    assert_int_equal(model_check(model, &item, &error), 0);
    model_close(model);
    model = load_case(engine, "tests/reference/linear_attention_lm_local");
    item.inputs[0].length = 20;
    assert_int_equal(model_check(model, &item, &error), 0);
    assert_int_equal(model_item_tokens(model, &item), 32);
    item.inputs[0].length = 65;
    assert_bad_item(model, &item, "at most 64");
    model_close(model);
    engine_close(engine);
}

static void padding_exact_accepts_only_the_exact_length(void **state)
{
    (void)state;
    struct engine *engine = open_engine();
    struct model *model = load_attention(engine, ", \"padding\": \"exact\"");
    static float rows[6 * 8];
    struct engine_item item = {0};
    struct error error;
    item.inputs[0].data = rows;
    item.inputs[0].length = 5;
    assert_bad_item(model, &item, "exactly 6");
    item.inputs[0].length = 6;
    assert_int_equal(model_check(model, &item, &error), 0);
    model_close(model);
    engine_close(engine);
}

static void ids_outside_of_the_vocabulary_are_refused(void **state)
{
    (void)state;
    struct engine *engine = open_engine();
    struct model_config config;
    struct weights *weights;
    struct model *model;
    struct error error;
    assert_int_equal(model_config_read("tests/reference/linformer_lm/config.json", &config, &error), 0);
    assert_int_equal(weights_open("tests/reference/linformer_lm/model.safetensors", &weights, &error), 0);
    assert_int_equal(engine_load(engine, &config, weights, NULL, NULL, &model, &error), 0);
    int32_t tokens[] = {0, 96, 97, -1};
    struct engine_item item = {0};
    item.inputs[0].data = tokens;
    item.inputs[0].length = 2;
    assert_int_equal(model_check(model, &item, &error), 0);
    item.inputs[0].length = 3;
    assert_bad_item(model, &item, "x[2] is 97; the model's ids are 0 to 96");
    item.inputs[0].data = tokens + 3;
    item.inputs[0].length = 1;
    assert_bad_item(model, &item, "x[0] is -1");
    model_close(model);
    weights_close(weights);
    model_config_free(&config);
    engine_close(engine);
}

/* Scripts read the last lines of the output of --explain. */
static void explanation_ends_with_bytes(void **state)
{
    (void)state;
    struct engine *engine = open_engine();
    struct model *model = load_attention(engine, "");
    char *text;
    size_t length;
    char ending[128];
    FILE *out = open_memstream(&text, &length);
    model_explain(model, 6, out);
    fclose(out);
    snprintf(ending, sizeof ending, "\nrequest_bytes %zu\nweights_bytes %zu\narena_bytes %zu\n",
             (6 * 8 + 6 * 8) * sizeof(float), model_info(model)->weights_bytes, model_info(model)->arena_bytes);
    assert_true(length > strlen(ending));
    assert_string_equal(text + length - strlen(ending), ending);
    assert_non_null(strstr(text, "\nre-associate proj_k and to_k.weight: FLOPs "));
    assert_non_null(strstr(text, "\nflops_before "));
    /* E, F and the bias are stored unchanged. The four matrices (8, 8) are packed in whole blocks, whose size depends
     * on the processor. */
    assert_in_range(model_info(model)->weights_bytes, (6 * 3 * 2 + 8 * 8 * 4 + 8) * sizeof(float),
                    (6 * 3 * 2 + 64 * 64 * 4 + 8) * sizeof(float));
    free(text);
    model_close(model);
    engine_close(engine);
}

/* Returns the number of bytes that --explain prints for the first step of the operation. */
static long long explained_bytes(const char *text, const char *operation)
{
    long long flops, bytes = -1;
    const char *line = strstr(text, operation);
    assert_non_null(line);
    sscanf(line + strlen(operation), "%lld %lld", &flops, &bytes);
    return bytes;
}

static char *explain_encoder(enum dtype dtype)
{
    struct engine *engine;
    struct model_config config;
    struct weights *weights;
    struct model *model;
    struct error error;
    struct engine_options options = {
        .device = {DEVICE_CPU}, .dtype = dtype, .max_batch_tokens = 32, .max_batch_requests = 4};
    char *text;
    size_t length;
    if (engine_open(&options, &engine, &error) != 0 ||
        model_config_read("tests/reference/linformer_encoder/config.json", &config, &error) != 0 ||
        weights_open("tests/reference/linformer_encoder/model.safetensors", &weights, &error) != 0 ||
        engine_load(engine, &config, weights, NULL, NULL, &model, &error) != 0)
        fail_msg("%s", error.message);
    FILE *out = open_memstream(&text, &length);
    model_explain(model, 24, out);
    fclose(out);
    model_close(model);
    weights_close(weights);
    model_config_free(&config);
    engine_close(engine);
    return text;
}

/* dim is 32, and an item has 24 rows. Queries are (24, 32), and their weight is (32, 32). A norm has two weights (32).
 * The hidden layer of the feed-forward has 128 columns. */
static void explanation_has_elements_and_epilogues(void **state)
{
    (void)state;
    char *text = explain_encoder(DTYPE_F32);
    assert_int_equal(explained_bytes(text, " linear "), 4 * (24 * 32 + 32 * 32 + 24 * 32));
    assert_null(strstr(text, "bf16"));
    assert_non_null(strstr(text,
                           "\ngelu fused into the product with net.layers.0.1.fn.w1.weight: FLOPs 196608 -> 196608, "
                           "24576 bytes less to write and read\n"));
    assert_non_null(strstr(text, "\nthe residual's addition fused into the product with net.layers.0.1.fn.w2.weight: "
                                 "FLOPs 196608 -> 196608, 6144 bytes less to write and read\n"));
    assert_non_null(
        strstr(text, "net.layers.0.1.fn.w2.weight in blocks of rows: FLOPs 393216 -> 393216, 24576 bytes less"));
    free(text);
    if (!cpu_has_bf16() || !vector_functions_of_bf16())
        skip();
    text = explain_encoder(DTYPE_BF16);
    assert_int_equal(explained_bytes(text, " linear "), 2 * (24 * 32 + 32 * 32 + 24 * 32));
    assert_int_equal(explained_bytes(text, " layer_norm "), 24 * 32 * (4 + 2) + 4 * 2 * 32);
    assert_non_null(
        strstr(text, " x v1 (24, 32) bf16 net.layers.0.0.fn.to_q.weight (32, 32) bf16 -> v2 (24, 32) bf16"));
    assert_non_null(strstr(text, "\nelements are float32 unless marked bf16; in the arena each occupies 4 bytes\n"));
    free(text);
}

static int count_threads(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;
    assert_non_null(folder);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* Returns the number of the process's threads after a batch of 400 rows. The batch has several tasks, but few
 * floating-point operations. */
static int threads_after_small_batch(bool all_threads)
{
    static float rows[400 * 8], pooled[8];
    struct engine_options options = {.device = {DEVICE_CPU},
                                     .dtype = DTYPE_F32,
                                     .threads = 3,
                                     .all_threads = all_threads,
                                     .max_batch_tokens = 512,
                                     .max_batch_requests = 1};
    struct engine_item item = {.inputs = {{.data = rows, .length = 400}, {.data = rows, .length = 6}},
                               .pooled = pooled};
    struct engine *engine;
    struct error error;
    assert_int_equal(engine_open(&options, &engine, &error), 0);
    struct model *model = load_attention(engine, "");
    assert_int_equal(model_check(model, &item, &error), 0);
    assert_int_equal(model_run(model, 0, &item, 1, &error), 0);
    model_close(model);
    engine_close(engine);
    return count_threads();
}

static void small_batches_wake_no_thread(void **state)
{
    (void)state;
    int before = count_threads();
    assert_int_equal(threads_after_small_batch(false), before);
    assert_int_equal(threads_after_small_batch(true), before + 2);
}

int main(void)
{
    random_seed(11);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unusable_devices_and_dtypes_are_refused),
        cmocka_unit_test(wrong_tensors_are_refused_by_name),
        cmocka_unit_test(wrong_classes_and_arguments_are_refused_by_name),
        cmocka_unit_test(the_error_of_an_unknown_class_lists_all_classes),
        cmocka_unit_test(wrong_arguments_of_linear_attention_are_refused),
        cmocka_unit_test(wrong_arguments_of_linformer_pytorch_are_refused),
        cmocka_unit_test(different_e_and_f_of_the_caller_are_accepted),
        cmocka_unit_test(wrong_items_are_refused),
        cmocka_unit_test(rows_must_fill_whole_windows),
        cmocka_unit_test(padding_exact_accepts_only_the_exact_length),
        cmocka_unit_test(ids_outside_of_the_vocabulary_are_refused),
        cmocka_unit_test(explanation_ends_with_bytes),
        cmocka_unit_test(explanation_has_elements_and_epilogues),
        cmocka_unit_test(small_batches_wake_no_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
