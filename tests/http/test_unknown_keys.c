/* Keys of a body that have no meaning on its route. Such keys are ignored and named, or refused with --strict. Keys
 * that have a meaning on a route must have an effect. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LIMIT = 1024 }; /* maximum number of tokens of the model "builtin" */

static struct daemon *the_daemon, *strict_daemon, *truncating_daemon;

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(NULL);
    strict_daemon = daemon_start(ARGUMENTS("--strict"));
    truncating_daemon = daemon_start(ARGUMENTS("--auto-truncate"));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    daemon_stop(strict_daemon);
    daemon_stop(truncating_daemon);
    return 0;
}

#define X "{\"name\": \"x\", \"shape\": [1, 2], \"datatype\": \"INT64\", \"data\": [70, 71]"
#define INFER "/v2/models/builtin/infer"

/* A body with keys that have no meaning on the route, the same body without them, and the names of these keys. */
static const struct {
    const char *path, *body, *plain, *ignored;
    long strict_status;
} cases[] = {
    {"/embed", "{\"inputs\": \"a\", \"parameters\": {}, \"input_type\": \"query\"}", "{\"inputs\": \"a\"}",
     "parameters, input_type", 422},
    {"/", "{\"inputs\": \"a\", \"truncate_tokens\": 3}", "{\"inputs\": \"a\"}", "truncate_tokens", 422},
    {"/embed_all", "{\"inputs\": \"a\", \"pooling\": \"cls\", \"prompt\": \"q\"}", "{\"inputs\": \"a\"}",
     "pooling, prompt", 422},
    {"/logits", "{\"inputs\": [70], \"raw_scores\": true, \"a\\r\\nb: c\": 1}", "{\"inputs\": [70]}",
     "raw_scores, a%0D%0Ab:%20c", 422},
    {"/tokenize", "{\"inputs\": \"a\", \"prompt\": \"q\"}", "{\"inputs\": \"a\"}", "prompt", 422},
    {"/fill-mask", "{\"inputs\": \"[MASK]\", \"normalize\": false, \"parameters\": {\"best\": 1}}",
     "{\"inputs\": \"[MASK]\"}", "normalize, best", 422},
    {"/similarity",
     "{\"inputs\": {\"source_sentence\": \"a\", \"sentences\": [\"b\"], \"n\": 1}, \"parameters\": {\"top\": 1}, "
     "\"k\": 1}",
     "{\"inputs\": {\"source_sentence\": \"a\", \"sentences\": [\"b\"]}}", "k, top, n", 422},
    {"/decode", "{\"ids\": [70], \"clean\": true}", "{\"ids\": [70]}", "clean", 422},
    {"/v1/embeddings", "{\"input\": [70, 71], \"input_type\": \"query\"}", "{\"input\": [70, 71]}", "input_type", 400},
    {INFER, "{\"inputs\": [" X "}], \"output\": []}", "{\"inputs\": [" X "}]}", "output", 400},
    {INFER, "{\"inputs\": [" X ", \"content\": 1}], \"outputs\": [{\"name\": \"output\", \"kind\": 2}]}",
     "{\"inputs\": [" X "}]}", "content, kind", 400},
    {"/v2/repository/index", "{\"ready\": true, \"\": 1, \"repository_name\": \"a\"}", "{\"ready\": true}",
     "\"\", repository_name", 400},
};

static void expect_ignored(const struct answer *answer, const char *names)
{
    char *header = answer_header(answer, "x-ignored-keys");
    if (!names)
        assert_null(header);
    else
        assert_string_equal(header ? header : "(no header)", names);
    free(header);
}

static void unknown_keys_are_ignored_and_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer plain = daemon_post(the_daemon, cases[i].path, cases[i].plain);
        struct answer answer = daemon_post(the_daemon, cases[i].path, cases[i].body);

        assert_int_equal(plain.status, 200);
        assert_int_equal(answer.status, 200);
        assert_true(json_equal(plain.json, answer.json));
        expect_ignored(&plain, NULL);
        expect_ignored(&answer, cases[i].ignored);
        answer_free(&plain);
        answer_free(&answer);
    }
}

static void strict_refuses_unknown_keys(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer plain = daemon_post(strict_daemon, cases[i].path, cases[i].plain);
        struct answer answer = daemon_post(strict_daemon, cases[i].path, cases[i].body);

        assert_int_equal(plain.status, 200);
        assert_int_equal(answer.status, cases[i].strict_status);
        assert_non_null(strstr(answer.body, "unknown key"));
        expect_ignored(&answer, NULL);
        answer_free(&plain);
        answer_free(&answer);
    }
    expect_failure(
        strict_daemon, "/embed", "{\"inputs\": \"a\", \"normalise\": true}", 422, "Validation",
        "unknown key \"normalise\"; the known ones are inputs, embeddings, model, truncate, truncation_direction, "
        "add_special_tokens, prompt_name, input_type, truncate_prompt_tokens, encoding_format, normalize");
}

/* Keys of other servers, and keys with the value null, are never named. */
static void keys_of_other_servers_are_not_named(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body;
    } bodies[] = {
        {"/embed", "{\"inputs\": \"a\", \"options\": {\"use_cache\": false}, \"normalise\": null}"},
        {"/v1/embeddings", "{\"input\": \"a\", \"user\": \"me\"}"},
        {INFER, "{\"inputs\": [" X "}], \"model_name\": \"x\", \"parameters\": {\"priority\": 1}}"},
    };
    for (size_t i = 0; i < 2 * LENGTH(bodies); i++) {
        struct answer answer = daemon_post(i % 2 ? strict_daemon : the_daemon, bodies[i / 2].path, bodies[i / 2].body);

        assert_int_equal(answer.status, 200);
        expect_ignored(&answer, NULL);
        answer_free(&answer);
    }
}

/* The answer of a failed request also names its ignored keys. They may be the reason for the failure. */
static void failures_name_unknown_keys(void **state)
{
    (void)state;
    struct answer answer = daemon_post(the_daemon, "/embed", "{\"input\": \"a\"}");
    expect_ignored(&answer, "input");
    expect_failure_answer(&answer, 422, "Validation", "`inputs` is missing");
}

/* At debug level, the log line of a request names its ignored keys. */
static void the_log_names_unknown_keys(void **state)
{
    (void)state;
    char line[1024] = "";
    struct daemon *daemon =
        daemon_try(&(struct daemon_options){.arguments = ARGUMENTS("--log-level", "debug", "--log-format", "json"),
                                            .log_unread = true},
                   line);
    struct answer answer = daemon_post(daemon, "/embed", "{\"inputs\": \"a\", \"prompt\": \"q\", \"b c\": 1}");
    json_t *object = NULL;
    answer_free(&answer);
    while (!object && daemon_log_line(daemon, line, sizeof line)) {
        if (strstr(line, "/embed"))
            object = json_loads(line, 0, NULL);
    }
    assert_string_equal(json_string_value(json_object_get(object, "ignored_keys")), "prompt, b%20c");
    json_decref(object);
    daemon_stop(daemon);
}

static void the_header_has_a_maximum_length(void **state)
{
    (void)state;
    char *body = malloc(400000);
    size_t length = (size_t)sprintf(body, "{\"inputs\": \"a\"");
    for (int i = 0; i < 20000; i++)
        length += (size_t)sprintf(body + length, ", \"key_%d\": 0", i);
    strcpy(body + length, "}");
    struct answer answer = daemon_post(the_daemon, "/embed", body);
    char *header = answer_header(&answer, "x-ignored-keys");
    assert_int_equal(answer.status, 200);
    assert_non_null(header);
    assert_in_range(strlen(header), 200, 255);
    assert_string_equal(header + strlen(header) - 5, ", ...");
    free(header);
    answer_free(&answer);
    free(body);
}

/* ---- Keys with a meaning ---- */

/* Returns {"KEY": INPUT MORE}. The input consists of the tokens [begin, end) of an endless text. The test frees the
 * body. */
static char *long_body(const char *key, bool text, int begin, int end, const char *more)
{
    char *body = malloc(8 * LIMIT);
    size_t length = (size_t)sprintf(body, "{\"%s\": %s", key, text ? "\"" : "[");
    for (int i = begin; i < end; i++)
        length += (size_t)sprintf(body + length, text ? "%c" : i > begin ? ",%d" : "%d", 'C' + i % 7);
    sprintf(body + length, "%s%s}", text ? "\"" : "]", more);
    return body;
}

/* Routes that accept texts and ids. The key of the input differs. */
static const struct {
    const char *path, *key;
    long status; /* status of the answer if the input is too long */
} routes[] = {{"/embed", "inputs", 422},
              {"/embed_all", "inputs", 422},
              {"/logits", "inputs", 422},
              {"/v1/embeddings", "input", 400}};

/* Sends an input of LIMIT + 2 tokens to each route. With the status 200, expects the answer for the input without its
 * last two tokens, or without its first two tokens if `more` contains "left". Otherwise expects a refusal. */
static void expect_cut(struct daemon *daemon, const char *more, long status)
{
    int begin = strstr(more, "left") ? 2 : 0;
    for (size_t i = 0; i < 2 * LENGTH(routes); i++) {
        char *body = long_body(routes[i / 2].key, i % 2, 0, LIMIT + 2, more);
        struct answer answer = daemon_post(daemon, routes[i / 2].path, body);

        assert_int_equal(answer.status, status == 200 ? 200 : routes[i / 2].status);
        expect_ignored(&answer, NULL);
        if (status != 200) {
            assert_non_null(strstr(answer.body, "has 1026 tokens"));
        } else {
            char *cut_body = long_body(routes[i / 2].key, i % 2, begin, begin + LIMIT, "");
            json_t *cut = daemon_post_json(daemon, routes[i / 2].path, cut_body);
            assert_true(json_equal(answer.json, cut));
            json_decref(cut);
            free(cut_body);
        }
        answer_free(&answer);
        free(body);
    }
}

static void truncate_is_honoured_on_every_route_of_texts(void **state)
{
    (void)state;
    expect_cut(the_daemon, "", 422);
    expect_cut(the_daemon, ", \"truncate\": true", 200);
    expect_cut(strict_daemon, ", \"truncate\": true, \"truncation_direction\": \"left\"", 200);
}

static void auto_truncate_is_the_default_of_truncate(void **state)
{
    (void)state;
    struct answer info = daemon_get(truncating_daemon, "/info");
    expect_cut(truncating_daemon, "", 200);
    expect_cut(truncating_daemon, ", \"truncate\": false", 422);
    assert_true(json_is_true(json_object_get(info.json, "auto_truncate")));
    answer_free(&info);
    info = daemon_get(the_daemon, "/info");
    assert_true(json_is_false(json_object_get(info.json, "auto_truncate")));
    answer_free(&info);
}

/* The model of bytes has "auto_truncate" in its config.json. */
static void auto_truncate_of_a_model_truncates_its_texts(void **state)
{
    (void)state;
    struct checkpoint checkpoint = checkpoint_read("../models/bytes");
    json_t *config = json_loads(checkpoint.config, 0, NULL);
    char *folder = folder_make(), path[512];
    json_object_set_new(config, "auto_truncate", json_true());
    free(checkpoint.config);
    checkpoint.config = json_dumps(config, 0);
    json_decref(config);
    snprintf(path, sizeof path, "%s/cut", folder);
    checkpoint_write(&checkpoint, path, 0);
    checkpoint_free(&checkpoint);
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", folder));
    expect_cut(daemon, "", 200);
    expect_cut(daemon, ", \"truncate\": false", 422);
    daemon_stop(daemon);
    folder_remove(folder);
    free(folder);
}

static json_t *first_vector(const char *path, const char *body)
{
    json_t *json = daemon_post_json(the_daemon, path, body);
    json_t *data = json_is_array(json) ? json : json_object_get(json, "data");
    json_t *first = json_array_get(data, 0);
    json_t *vector = json_incref(json_is_object(first) ? json_object_get(first, "embedding") : first);
    json_decref(json);
    return vector;
}

/* OpenAI's API does not define `pooling` and `normalize`. The vectors must equal those of /embed. */
static void openai_accepts_keys_of_embed(void **state)
{
    (void)state;
    static const char *const more[] = {"\"pooling\": \"cls\"", "\"normalize\": false", "\"dimensions\": 5"};
    json_t *plain = first_vector("/embed", "{\"inputs\": \"abc\"}");
    for (size_t i = 0; i < LENGTH(more); i++) {
        char native[128], openai[128];
        json_t *expected, *found;

        snprintf(native, sizeof native, "{\"inputs\": \"abc\", %s}", more[i]);
        snprintf(openai, sizeof openai, "{\"input\": \"abc\", %s}", more[i]);
        expected = first_vector("/embed", native);
        found = first_vector("/v1/embeddings", openai);
        assert_true(json_equal(expected, found));
        assert_false(json_equal(expected, plain));
        json_decref(expected);
        json_decref(found);
    }
    json_decref(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unknown_keys_are_ignored_and_named),
        cmocka_unit_test(strict_refuses_unknown_keys),
        cmocka_unit_test(keys_of_other_servers_are_not_named),
        cmocka_unit_test(failures_name_unknown_keys),
        cmocka_unit_test(the_log_names_unknown_keys),
        cmocka_unit_test(the_header_has_a_maximum_length),
        cmocka_unit_test(truncate_is_honoured_on_every_route_of_texts),
        cmocka_unit_test(auto_truncate_is_the_default_of_truncate),
        cmocka_unit_test(auto_truncate_of_a_model_truncates_its_texts),
        cmocka_unit_test(openai_accepts_keys_of_embed),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
