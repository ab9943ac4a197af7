/* The largest inputs in the READMEs of the libraries, with default settings of the daemon: an image of 256 x 256
 * pixels, 4096 x 512 floats as JSON, and 262144 x 64 floats in binary. With lower limits, the daemon refuses the image
 * and the JSON. Weights are random. The tests check the answer's shape, and that its numbers are finite. The numbers of
 * a binary answer must not be all equal. */
#include "tests/http/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANNELS = 32, SIDE = 256, ROWS = 4096, DIM = 512, LONG_ROWS = 262144, LONG_CHANNELS = 64 };

static const char image_config[] = "{\"architecture\": \"linear_attention_transformer.ImageLinearAttention\", "
                                   "\"kwargs\": {\"chan\": 32, \"heads\": 8, \"key_dim\": 64}}";
static const struct checkpoint_shape image_shapes[] = {
    {"to_q.weight", 4, {512, CHANNELS, 1, 1}},   {"to_q.bias", 1, {512}},
    {"to_k.weight", 4, {512, CHANNELS, 1, 1}},   {"to_k.bias", 1, {512}},
    {"to_v.weight", 4, {512, CHANNELS, 1, 1}},   {"to_v.bias", 1, {512}},
    {"to_out.weight", 4, {CHANNELS, 512, 1, 1}}, {"to_out.bias", 1, {CHANNELS}},
};

static const char encoder_config[] =
    "{\"architecture\": \"linformer.Linformer\", \"kwargs\": {\"dim\": 512, \"seq_len\": 4096, \"depth\": 1, "
    "\"heads\": 8, \"k\": 256, \"one_kv_head\": true, \"share_kv\": true}}";
static const struct checkpoint_shape encoder_shapes[] = {
    {"net.layers.0.0.fn.proj_k", 2, {ROWS, 256}},
    {"net.layers.0.0.fn.to_k.weight", 2, {64, DIM}},
    {"net.layers.0.0.fn.to_out.weight", 2, {DIM, DIM}},
    {"net.layers.0.0.fn.to_out.bias", 1, {DIM}},
    {"net.layers.0.0.fn.to_q.weight", 2, {DIM, DIM}},
    {"net.layers.0.0.norm.weight", 1, {DIM}},
    {"net.layers.0.0.norm.bias", 1, {DIM}},
    {"net.layers.0.1.fn.w1.weight", 2, {4 * DIM, DIM}},
    {"net.layers.0.1.fn.w1.bias", 1, {4 * DIM}},
    {"net.layers.0.1.fn.w2.weight", 2, {DIM, 4 * DIM}},
    {"net.layers.0.1.fn.w2.bias", 1, {DIM}},
    {"net.layers.0.1.norm.weight", 1, {DIM}},
    {"net.layers.0.1.norm.bias", 1, {DIM}},
};

static const char long_config[] =
    "{\"architecture\": \"linformer_pytorch.Linformer\", \"kwargs\": {\"input_size\": 262144, \"channels\": 64, "
    "\"dim_k\": 16, \"dim_ff\": 64, \"nhead\": 1, \"depth\": 1, \"parameter_sharing\": \"layerwise\"}}";
static const struct checkpoint_shape long_shapes[] = {
    {"seq.0.fn.heads.0.E.weight", 2, {16, LONG_ROWS}},
    {"seq.0.fn.heads.0.E.bias", 1, {16}},
    {"seq.0.fn.to_q.0.weight", 2, {64, LONG_CHANNELS}},
    {"seq.0.fn.to_k.0.weight", 2, {64, LONG_CHANNELS}},
    {"seq.0.fn.to_v.0.weight", 2, {64, LONG_CHANNELS}},
    {"seq.0.fn.w_o.weight", 2, {LONG_CHANNELS, 64}},
    {"seq.0.fn.w_o.bias", 1, {LONG_CHANNELS}},
    {"seq.0.norm.weight", 1, {LONG_CHANNELS}},
    {"seq.0.norm.bias", 1, {LONG_CHANNELS}},
    {"seq.1.fn.w_1.weight", 2, {64, LONG_CHANNELS}},
    {"seq.1.fn.w_1.bias", 1, {64}},
    {"seq.1.fn.w_2.weight", 2, {LONG_CHANNELS, 64}},
    {"seq.1.fn.w_2.bias", 1, {LONG_CHANNELS}},
    {"seq.1.norm.weight", 1, {LONG_CHANNELS}},
    {"seq.1.norm.bias", 1, {LONG_CHANNELS}},
};

static char *folder;
static float *numbers; /* all floats of the longest input, and one more */

static void write_model(const char *name, const char *config, const struct checkpoint_shape *shapes, size_t count)
{
    struct checkpoint checkpoint = checkpoint_random(config, shapes, count);
    char path[512];
    if (strstr(config, "layerwise")) /* F and E share their weight, as in the library's file */
        checkpoint.metadata = json_pack("{s:s, s:s}", "seq.0.fn.heads.0.F.weight", "seq.0.fn.heads.0.E.weight",
                                        "seq.0.fn.heads.0.F.bias", "seq.0.fn.heads.0.E.bias");
    snprintf(path, sizeof path, "%s/%s", folder, name);
    checkpoint_write(&checkpoint, path, 0);
    checkpoint_free(&checkpoint);
}

static int make_models(void **state)
{
    (void)state;
    size_t count = (size_t)LONG_ROWS * LONG_CHANNELS + 1;
    folder = folder_make();
    write_model("image", image_config, image_shapes, LENGTH(image_shapes));
    write_model("encoder", encoder_config, encoder_shapes, LENGTH(encoder_shapes));
    write_model("long", long_config, long_shapes, LENGTH(long_shapes));
    numbers = malloc(count * sizeof *numbers);
    assert_non_null(numbers);
    for (size_t i = 0; i < count; i++)
        numbers[i] = (float)sin((double)i * 0.37);
    return 0;
}

static int remove_models(void **state)
{
    (void)state;
    folder_remove(folder);
    free(folder);
    free(numbers);
    return 0;
}

static int64_t setting(const struct daemon *daemon, const char *key)
{
    struct answer answer = daemon_get(daemon, "/info");
    int64_t value = json_integer_value(json_object_get(answer.json, key));
    answer_free(&answer);
    return value;
}

/* Sends one tensor "x" or "tensor" in binary. Expects an answer of the same shape, with finite numbers. Its first and
 * third quarters must differ. */
static void expect_same_shape(const struct daemon *daemon, const char *model, const struct infer_tensor *tensor)
{
    struct infer_request body = infer_body_of(tensor, 1, NULL, 0);
    struct infer_answer answer = infer_send(daemon, model, &body);
    struct infer_tensor output = infer_output(&answer, 0);
    assert_int_equal(output.rank, tensor->rank);
    for (int d = 0; d < tensor->rank; d++)
        assert_int_equal(output.shape[d], tensor->shape[d]);
    assert_int_equal(output.bytes, tensor->bytes);
    for (size_t at = 0; at < output.bytes; at += sizeof(float)) {
        float value;
        memcpy(&value, (const char *)output.data + at, sizeof value);
        assert_true(isfinite(value));
    }
    assert_memory_not_equal(output.data, (const char *)output.data + output.bytes / 2, output.bytes / 4);
    infer_answer_free(&answer);
    infer_body_free(&body);
}

static struct infer_tensor image(void)
{
    return (struct infer_tensor){.name = "x",
                                 .datatype = "FP32",
                                 .rank = 4,
                                 .shape = {1, CHANNELS, SIDE, SIDE},
                                 .data = numbers,
                                 .bytes = (size_t)CHANNELS * SIDE * SIDE * sizeof(float)};
}

/* Returns a body with a list of the floats, each with 17 digits, with the spaces that Python's json writes. */
static char *encoder_body(void)
{
    size_t room = (size_t)ROWS * DIM * 25 + 64 * ROWS;
    char *body = malloc(room), *at = body;
    assert_non_null(body);
    at += sprintf(at, "{\"embeddings\": [");
    for (int r = 0; r < ROWS; r++) {
        at += sprintf(at, "%s[", r ? ", " : "");
        for (int c = 0; c < DIM; c++)
            at += sprintf(at, "%s%.17g", c ? ", " : "", (double)numbers[r * DIM + c]);
        *at++ = ']';
    }
    strcpy(at, "]}");
    return body;
}

static void examples_run_on_default_flags(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", folder));
    struct infer_tensor rows = {.name = "tensor",
                                .datatype = "FP32",
                                .rank = 3,
                                .shape = {1, LONG_ROWS, LONG_CHANNELS},
                                .data = numbers,
                                .bytes = (size_t)LONG_ROWS * LONG_CHANNELS * sizeof(float)};
    struct infer_tensor pixels = image();
    char *body = encoder_body();
    assert_int_equal(setting(daemon, "max_batch_tokens"), 16384);
    assert_true(setting(daemon, "payload_limit") > (int64_t)rows.bytes);
    expect_same_shape(daemon, "image", &pixels);
    expect_same_shape(daemon, "long", &rows);
    assert_true(strlen(body) > 33554432);
    memcpy(strstr(body, "]]}"), "]] ", 3); /* the buffer has space for the model's name */
    strcat(body, ", \"model\": \"encoder\"}");
    json_t *vectors = daemon_post_json(daemon, "/embed", body);
    assert_int_equal(json_array_size(vectors), 1);
    assert_int_equal(json_array_size(json_array_get(vectors, 0)), DIM);
    for (size_t i = 0; i < DIM; i++)
        assert_true(isfinite(json_number_at(json_array_get(vectors, 0), i)));
    json_decref(vectors);
    free(body);
    daemon_stop(daemon);
}

static void explicit_limits_are_kept(void **state)
{
    (void)state;
    struct daemon *daemon =
        daemon_start(ARGUMENTS("--model", folder, "--max-batch-tokens", "16384", "--payload-limit", "33554432"));
    struct infer_tensor pixels = image();
    struct infer_request body = infer_body_of(&pixels, 1, NULL, 0);
    struct answer answer = infer_call(daemon, "image", &body, NULL);
    char *large = encoder_body();
    assert_int_equal(answer.status, 400);
    assert_non_null(strstr(answer.body, "256 x 256 pixels; this server accepts at most 16384"));
    answer_free(&answer);
    infer_body_free(&body);
    answer = daemon_post(daemon, "/embed", large);
    assert_int_equal(answer.status, 413);
    answer_free(&answer);
    free(large);
    assert_int_equal(setting(daemon, "max_batch_tokens"), 16384);
    assert_int_equal(setting(daemon, "payload_limit"), 33554432);
    daemon_stop(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(examples_run_on_default_flags),
        cmocka_unit_test(explicit_limits_are_kept),
    };
    return cmocka_run_group_tests(tests, make_models, remove_models);
}
