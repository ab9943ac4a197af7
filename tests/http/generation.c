#include "tests/http/generation.h"

#include "tests/http/checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GREEDY "tests/generation/greedy.json"
#define RUNS 16
#define LONGEST_INPUT 64 /* max_seq_len of the models in the file GREEDY */
#define BEYOND 16        /* number of compared tokens beyond max_seq_len, if the daemon is slow */
#define BYTES 259        /* number of ids of the byte tokenizer */

/* A causal model whose tokens are bytes. It has every operation that keeps a state between tokens, except those that
 * read a context: linear and local heads, a token shift, and buckets. */
static const char text_config[] = /* %s: additional keys, each followed by a comma. %d: number of ids */
    "{\"architecture\": \"linear_attention_transformer.LinearAttentionTransformerLM\", %s\"kwargs\": {"
    "\"num_tokens\": %d, \"dim\": 16, \"heads\": 2, \"depth\": 1, \"max_seq_len\": 256, \"dim_head\": 8, "
    "\"causal\": true, \"local_attn_window_size\": 16, \"n_local_attn_heads\": 1, \"shift_tokens\": true, "
    "\"blindspot_size\": 2}, \"tokenizer\": {\"type\": \"byte\"}}";
static const struct checkpoint_shape text_shapes[] = {
    {"token_emb.weight", 2, {BYTES, 16}},
    {"pos_emb.weights.0", 4, {1, 16, 1, 16}},
    {"pos_emb.weights.1", 4, {1, 1, 16, 16}},
    {"transformer.layers.layers.0.0.fn.fn.to_q.weight", 2, {16, 16}},
    {"transformer.layers.layers.0.0.fn.fn.to_k.weight", 2, {16, 16}},
    {"transformer.layers.layers.0.0.fn.fn.to_v.weight", 2, {16, 16}},
    {"transformer.layers.layers.0.0.fn.fn.to_out.weight", 2, {16, 16}},
    {"transformer.layers.layers.0.0.fn.fn.to_out.bias", 1, {16}},
    {"transformer.layers.layers.0.0.norm.weight", 1, {16}},
    {"transformer.layers.layers.0.0.norm.bias", 1, {16}},
    {"transformer.layers.layers.0.1.fn.fn.fn.w1.weight", 2, {64, 16}},
    {"transformer.layers.layers.0.1.fn.fn.fn.w1.bias", 1, {64}},
    {"transformer.layers.layers.0.1.fn.fn.fn.w2.weight", 2, {16, 64}},
    {"transformer.layers.layers.0.1.fn.fn.fn.w2.bias", 1, {16}},
    {"transformer.layers.layers.0.1.norm.weight", 1, {16}},
    {"transformer.layers.layers.0.1.norm.bias", 1, {16}},
    {"norm.weight", 1, {16}},
    {"norm.bias", 1, {16}},
    {"out.weight", 2, {BYTES, 16}},
    {"out.bias", 1, {BYTES}},
};

static void write_model(const char *folder, const char *name, const char *keys, int vocabulary, int64_t first_bad)
{
    char config[1024], path[512];
    struct checkpoint_shape shapes[LENGTH(text_shapes)];
    memcpy(shapes, text_shapes, sizeof shapes);
    for (size_t i = 0; i < LENGTH(shapes); i++)
        if (shapes[i].shape[0] == BYTES)
            shapes[i].shape[0] = vocabulary;
    snprintf(config, sizeof config, text_config, keys, vocabulary);
    struct checkpoint checkpoint = checkpoint_random(config, shapes, LENGTH(shapes));
    struct checkpoint_tensor *table = checkpoint_tensor(&checkpoint, "token_emb.weight");
    for (int64_t i = first_bad * table->shape[1]; i < table->shape[0] * table->shape[1]; i++)
        ((float *)table->data)[i] = NAN;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    checkpoint_write(&checkpoint, path, 0);
    checkpoint_free(&checkpoint);
}

void generation_model_write(const char *folder, const char *name, const char *keys)
{
    write_model(folder, name, keys, BYTES, BYTES);
}

void generation_wide_model_write(const char *folder, const char *name, int vocabulary)
{
    write_model(folder, name, "", vocabulary, vocabulary);
}

void generation_failing_model_write(const char *folder, const char *name, int64_t first_bad)
{
    write_model(folder, name, "", BYTES, first_bad);
}

struct daemon *generation_daemon_start(char **folder)
{
    *folder = folder_make();
    generation_model_write(*folder, "texts", "");
    generation_model_write(*folder, "ending",
                           "\"eos_token\": 258, \"name\": \"ending\", \"prompts\": {\"query\": \"query: \"}, ");
    generation_failing_model_write(*folder, "failing", 131);
    char texts[512], ending[512], failing[512];
    snprintf(texts, sizeof texts, "%s/texts", *folder);
    snprintf(ending, sizeof ending, "%s/ending", *folder);
    snprintf(failing, sizeof failing, "%s/failing", *folder);
    return daemon_start(ARGUMENTS(
        "--model", "tests/reference/linear_attention_lm_causal", "--model",
        "tests/reference/linear_attention_lm_causal_blindspot_1", "--model",
        "tests/reference/linear_attention_lm_causal_local_shift", "--model",
        "tests/reference/linear_attention_lm_everything", "--model", "tests/reference/linear_attention_encoder_decoder",
        "--model", "tests/reference/linformer_pytorch_lm_causal", "--model", "tests/reference/linformer_lm", "--model",
        texts, "--model", ending, "--model", failing));
}

void generation_daemon_stop(struct daemon *daemon, char *folder)
{
    daemon_stop(daemon);
    folder_remove(folder);
    free(folder);
}

char *generation_body(const char *model, const json_t *prompt, const char *parameters)
{
    char *ids = json_dumps(prompt, JSON_COMPACT | JSON_ENCODE_ANY);
    size_t size = strlen(ids) + strlen(model) + strlen(parameters) + 64;
    char *body = malloc(size);
    snprintf(body, size, "{\"model\":\"%s\",\"inputs\":%s,\"parameters\":{%s}}", model, ids, parameters);
    free(ids);
    return body;
}

json_t *generation_greedy_runs(void)
{
    json_t *runs = json_of_file(GREEDY);
    assert_int_equal(json_array_size(runs), RUNS);
    for (size_t i = 0; i < RUNS && daemon_is_slow(); i++) {
        json_t *ids = json_object_get(json_array_get(runs, i), "ids");
        size_t prompt = json_array_size(json_object_get(json_array_get(runs, i), "prompt"));
        size_t wanted = prompt < LONGEST_INPUT ? LONGEST_INPUT - prompt + BEYOND : BEYOND;
        while (json_array_size(ids) > wanted)
            json_array_remove(ids, json_array_size(ids) - 1);
    }
    return runs;
}
