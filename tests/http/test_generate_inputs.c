/* Keys of requests that generate, besides the prompt: named inputs of a model, and parameters that switch off a model's
 * defaults. The expected greedy ids of a context with a mask come from /v2 with the same tensors. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"
#include "tests/http/generation.h"
#include "tests/unit/case_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* A model of tests/generation/random.tar.gz: 51 ids, and a context of rows of 12 floats. */
#define MODEL "context_120"
#define COLUMNS 12
#define ROWS 5
#define VOCABULARY 51

static char *folder;
static struct daemon *the_daemon;

static void write_file(const struct case_files *files, const char *name)
{
    char path[512];
    size_t length;
    snprintf(path, sizeof path, "%s/" MODEL "/%s", folder, name);
    char *bytes = case_files_read(files, MODEL, name, &length);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
    free(bytes);
}

static int start(void **state)
{
    (void)state;
    char path[512];
    folder = folder_make();
    snprintf(path, sizeof path, "%s/" MODEL, folder);
    assert_int_equal(mkdir(path, 0700), 0);
    struct case_files *files = case_files_open("tests/generation/random.tar.gz");
    assert_non_null(files);
    write_file(files, "config.json");
    write_file(files, "model.safetensors");
    case_files_close(files);
    generation_model_write(folder, "texts", "");
    generation_model_write(
        folder, "defaults",
        "\"name\": \"defaults\", \"generation\": {\"do_sample\": true, \"top_k\": 2, \"top_p\": 0.3, "
        "\"repetition_penalty\": 9}, ");
    the_daemon = daemon_start(ARGUMENTS("--model", folder));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    folder_remove(folder);
    free(folder);
    return 0;
}

/* ---- A context ---- */

static json_t *context_rows(void)
{
    json_t *rows = json_array();
    for (int r = 0; r < ROWS; r++) {
        json_t *row = json_array();
        for (int c = 0; c < COLUMNS; c++)
            json_array_append_new(row, json_real(((r * 7 + c * 5) % 11 - 5) / 2.0));
        json_array_append_new(rows, row);
    }
    return rows;
}

/* Returns a mask that is true for the first rows of the context. */
static json_t *mask_of(int rows)
{
    json_t *mask = json_array();
    for (int r = 0; r < ROWS; r++)
        json_array_append_new(mask, json_boolean(r < rows));
    return mask;
}

static void append_all(json_t *to, const json_t *list)
{
    size_t i;
    const json_t *value;
    json_array_foreach (list, i, value)
        json_array_append(to, (json_t *)value);
}

/* Returns the most probable id after the given ids, from /v2. */
static json_int_t next_by_v2(const json_t *ids, const json_t *mask)
{
    json_t *rows = context_rows(), *flat = json_array(), *row;
    size_t i, n = json_array_size(ids), best = 0;
    json_array_foreach (rows, i, row)
        append_all(flat, row);
    json_t *body = json_pack("{s:[{s:s,s:s,s:[i,i],s:O},{s:s,s:s,s:[i,i,i],s:o},{s:s,s:s,s:[i,i],s:O}]}", "inputs",
                             "name", "x", "datatype", "INT64", "shape", 1, (int)n, "data", ids, "name", "context",
                             "datatype", "FP32", "shape", 1, ROWS, COLUMNS, "data", flat, "name", "context_mask",
                             "datatype", "BOOL", "shape", 1, ROWS, "data", mask);
    char *text = json_dumps(body, JSON_COMPACT);
    json_t *answer = daemon_post_json(the_daemon, "/v2/models/" MODEL "/infer", text);
    const json_t *data = json_object_get(json_array_get(json_object_get(answer, "outputs"), 0), "data");
    assert_int_equal(json_array_size(data), n * VOCABULARY);
    for (i = 1; i < VOCABULARY; i++)
        if (json_number_at(data, (n - 1) * VOCABULARY + i) > json_number_at(data, (n - 1) * VOCABULARY + best))
            best = i;
    json_decref(answer);
    json_decref(body);
    json_decref(rows);
    free(text);
    return (json_int_t)best;
}

/* Posts the context, with or without a mask, to /generate and /v1/completions. Both must give the same ids, which are
 * returned. */
static json_t *generate(json_t *mask)
{
    json_t *body = json_pack("{s:s,s:[i,i],s:o,s:{s:i}}", "model", MODEL, "inputs", 3, 9, "context", context_rows(),
                             "parameters", "max_new_tokens", 12);
    json_t *other = json_pack("{s:s,s:[[i,i],[i,i]],s:o,s:i,s:i}", "model", MODEL, "prompt", 3, 9, 3, 9, "context",
                              context_rows(), "max_tokens", 12, "temperature", 0);
    if (mask) {
        json_object_set(body, "context_mask", mask);
        json_object_set(other, "context_mask", mask);
    }
    char *text = json_dumps(body, JSON_COMPACT), *other_text = json_dumps(other, JSON_COMPACT);
    json_t *answer = daemon_post_json(the_daemon, "/generate", text), *ids = json_array();
    json_t *completion = daemon_post_json(the_daemon, "/v1/completions", other_text);
    const json_t *tokens = json_object_get(json_object_get(answer, "details"), "tokens");
    for (size_t i = 0; i < json_array_size(tokens); i++)
        json_array_append(ids, json_object_get(json_array_get(tokens, i), "id"));
    for (size_t c = 0; c < 2; c++)
        assert_true(
            json_equal(json_object_get(json_array_get(json_object_get(completion, "choices"), c), "token_ids"), ids));
    json_decref(answer);
    json_decref(completion);
    json_decref(body);
    json_decref(other);
    free(text);
    free(other_text);
    return ids;
}

static void test_generation_respects_the_mask_of_a_context(void **state)
{
    (void)state;
    json_t *whole = generate(NULL);
    for (int rows = 1; rows <= ROWS; rows++) {
        json_t *mask = mask_of(rows), *ids = generate(mask), *sequence = json_pack("[i,i]", 3, 9);
        assert_int_equal(json_array_size(ids), 12);
        for (size_t i = 0; i < json_array_size(ids); i++) {
            assert_int_equal(json_integer_value(json_array_get(ids, i)), next_by_v2(sequence, mask));
            json_array_append(sequence, json_array_get(ids, i));
        }
        assert_true(rows < 2 ? !json_equal(ids, whole) : rows < ROWS || json_equal(ids, whole));
        json_decref(sequence);
        json_decref(mask);
        json_decref(ids);
    }
    json_decref(whole);
}

static void test_wrong_contexts_and_masks_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *model, *keys, *message;
    } cases[] = {
        {"texts", "\"context\":[[1]]", "context is given, but model \\\"texts\\\" has no such input"},
        {"texts", "\"embeddings\":[[1]]", "embeddings is given"},
        {MODEL, "\"decoder\":1", "\\\"context\\\" is missing"},
        {MODEL, "\"context\":3", "context is an integer, a list of rows was expected"},
        {MODEL, "\"context\":[]", "context is empty, a list of rows was expected"},
        {MODEL, "\"context\":[1]", "context[0] is an integer, a list of 12 floats was expected"},
        {MODEL, "\"context\":[[1,2]]", "context[0] has 2 values, but rows of model"},
        {MODEL, "\"context\":[[1,2,3,4,5,6,7,8,9,10,11,\"a\"]]", "context[0][11] is a string, a number was expected"},
        {MODEL, "\"context\":[[1,2,3,4,5,6,7,8,9,10,11,1e99]]", "context[0][11] is 1e+99, outside the range"},
        {MODEL, "\"context\":[[1,2,3,4,5,6,7,8,9,10,11,12]],\"context_mask\":[1]", "true or false was expected"},
        {MODEL, "\"context\":[[1,2,3,4,5,6,7,8,9,10,11,12]],\"context_mask\":[]", "context_mask is empty"},
        {MODEL, "\"context\":[[1,2,3,4,5,6,7,8,9,10,11,12]],\"context_mask\":[true,true]", "has 2 rows; expected 1"},
        {MODEL, "\"context_mask\":[true]", "\\\"context\\\" is missing"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        for (int route = 0; route < 2; route++) {
            char body[512];
            snprintf(body, sizeof body, "{\"model\":\"%s\",\"%s\":[1],%s}", cases[i].model,
                     route == 0 ? "inputs" : "prompt", cases[i].keys);
            struct answer answer = daemon_post(the_daemon, route == 0 ? "/generate" : "/v1/completions", body);
            if (answer.status != (route == 0 ? 422 : 400) || !strstr(answer.body, cases[i].message))
                fail_msg("%s: %ld %s", body, answer.status, answer.body);
            answer_free(&answer);
        }
}

/* ---- A model's defaults ---- */

static json_t *sampled(const char *model, const char *parameters)
{
    char body[512];
    snprintf(body, sizeof body,
             "{\"model\":\"%s\",\"inputs\":\"ab\",\"parameters\":{\"max_new_tokens\":40,\"details\":true,"
             "\"do_sample\":true,\"seed\":5%s}}",
             model, parameters);
    json_t *answer = daemon_post_json(the_daemon, "/generate", body);
    json_t *tokens = json_incref(json_object_get(json_object_get(answer, "details"), "tokens"));
    json_decref(answer);
    return tokens;
}

/* top_k 0, top_p 1 and repetition_penalty 1 mean no filter. Each of them overrides the model's default. */
static void test_neutral_filters_override_the_defaults_of_a_model(void **state)
{
    (void)state;
    static const char *const kept[] = {"", ",\"top_p\":1,\"repetition_penalty\":1",
                                       ",\"top_k\":0,\"repetition_penalty\":1", ",\"top_k\":0,\"top_p\":1"};
    json_t *plain = sampled("texts", "");
    json_t *off = sampled("defaults", ",\"top_k\":0,\"top_p\":1,\"repetition_penalty\":1");
    assert_true(json_equal(plain, off));
    for (size_t i = 0; i < LENGTH(kept); i++) {
        json_t *tokens = sampled("defaults", kept[i]);
        assert_false(json_equal(plain, tokens));
        json_decref(tokens);
    }
    json_decref(plain);
    json_decref(off);
    struct answer answer =
        daemon_post(the_daemon, "/generate", "{\"model\":\"texts\",\"inputs\":\"a\",\"parameters\":{\"top_k\":-1}}");
    assert_int_equal(answer.status, 422);
    assert_non_null(strstr(answer.body, "parameters.top_k is -1, an integer from 0"));
    answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_generation_respects_the_mask_of_a_context),
        cmocka_unit_test(test_wrong_contexts_and_masks_are_refused),
        cmocka_unit_test(test_neutral_filters_override_the_defaults_of_a_model),
    };
    return cmocka_run_group_tests_name("generate_inputs", tests, start, stop);
}
