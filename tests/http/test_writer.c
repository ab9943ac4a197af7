/* The built-in model that writes text. /generate of a daemon without --model must continue texts as
 * linear-attention-transformer does (weights/writer/examples.json). */
#include "tests/http/the_daemon.h"

#include <stdlib.h>
#include <string.h>

#define EXAMPLES "weights/writer/examples.json"

static json_t *examples;

static int start(void **state)
{
    examples = json_of_file(EXAMPLES);
    return the_daemon_start_built_in(state);
}

static int stop(void **state)
{
    json_decref(examples);
    return the_daemon_stop(state);
}

/* Requests the most probable tokens, with the parameters that the library used. `model` may be NULL. */
static struct answer generate(const json_t *example, const char *inputs, const char *model)
{
    size_t count = json_array_size(json_object_get(example, "new_ids"));
    json_t *body =
        json_pack("{s:O, s:{s:I, s:b, s:b, s:i}}", "inputs", json_object_get(example, inputs), "parameters",
                  "max_new_tokens", (json_int_t)count, "details", 1, "do_sample", 0, "repetition_penalty", 1);
    if (model)
        json_object_set_new(body, "model", json_string(model));
    char *text = json_dumps(body, 0);
    struct answer answer = daemon_post(the_daemon, "/generate", text);
    json_decref(body);
    free(text);
    return answer;
}

static void expect_continuation(struct answer *answer, const json_t *example)
{
    size_t i;
    const json_t *id, *ids = json_object_get(example, "new_ids");
    if (answer->status != 200)
        fail_msg("status %ld: %s", answer->status, answer->body);
    const json_t *tokens = json_object_get(json_object_get(answer->json, "details"), "tokens");
    assert_int_equal(json_array_size(tokens), json_array_size(ids));
    json_array_foreach (ids, i, id)
        assert_int_equal(json_integer_value(json_object_get(json_array_get(tokens, i), "id")), json_integer_value(id));
    assert_string_equal(json_string_value(json_object_get(answer->json, "generated_text")),
                        json_string_value(json_object_get(example, "text")));
    answer_free(answer);
}

static void test_texts_are_continued_as_by_the_library(void **state)
{
    (void)state;
    size_t i;
    const json_t *example;
    assert_int_equal(json_array_size(examples), 3);
    json_array_foreach (examples, i, example) {
        assert_true(json_array_size(json_object_get(example, "new_ids")) >= 8);
        struct answer text = generate(example, "prompt", NULL), ids = generate(example, "ids", "builtin-writer");
        expect_continuation(&text, example);
        expect_continuation(&ids, example);
    }
}

static char *generated_text(const char *route, const char *body)
{
    struct answer answer = daemon_post(the_daemon, route, body);
    if (answer.status != 200)
        fail_msg("%s %s: %ld %s", route, body, answer.status, answer.body);
    const json_t *choices = json_object_get(answer.json, "choices");
    const json_t *text =
        choices ? json_object_get(json_array_get(choices, 0), "text") : json_object_get(answer.json, "generated_text");
    char *copy = strdup(json_string_value(text));
    answer_free(&answer);
    return copy;
}

static void expect_texts(const char *route, const char *one, const char *other, bool equal)
{
    char *first = generated_text(route, one), *second = generated_text(route, other);
    if ((strcmp(first, second) == 0) != equal)
        fail_msg("%s\n%s: %s\n%s: %s", route, one, first, other, second);
    free(first);
    free(second);
}

/* config.json of the model contains defaults for the sampling of tokens. A request may override each default. */
static void test_the_model_has_defaults_for_choosing_tokens(void **state)
{
    (void)state;
    static const char given[] = "{\"inputs\": \"The following\", \"parameters\": {\"seed\": 1, \"do_sample\": true, "
                                "\"temperature\": 0.7, \"top_p\": 0.95, \"repetition_penalty\": 1.3}}";
    expect_texts("/generate", "{\"inputs\": \"The following\", \"parameters\": {\"seed\": 1}}", given, true);
    static const char *const others[] = {
        "{\"inputs\": \"The following\", \"parameters\": {\"seed\": 1, \"do_sample\": false}}",
        "{\"inputs\": \"The following\", \"parameters\": {\"seed\": 1, \"temperature\": 3}}",
        "{\"inputs\": \"The following\", \"parameters\": {\"seed\": 1, \"top_p\": 0.1}}",
        "{\"inputs\": \"The following\", \"parameters\": {\"seed\": 1, \"repetition_penalty\": 9}}",
    };
    for (size_t i = 0; i < LENGTH(others); i++)
        expect_texts("/generate", others[i], given, false);
    expect_texts("/v1/completions", "{\"prompt\": \"The following\", \"seed\": 1}",
                 "{\"prompt\": \"The following\", \"seed\": 1, \"temperature\": 0.7, \"top_p\": 0.95, "
                 "\"repetition_penalty\": 1.3}",
                 true);
}

/* Except the last one, the requests name no model. If they generate, the writer answers them. Otherwise the first model
 * answers. */
static void test_only_requests_that_generate_choose_the_writer(void **state)
{
    (void)state;
    static const struct {
        const char *route, *body, *type;
    } generating[] = {
        {"/generate_stream", "{\"inputs\": \"a text\"}", "text/event-stream"},
        {"/v1/completions", "{\"prompt\": \"a text\"}", "application/json"},
        {"/", "{\"inputs\": \"a text\", \"stream\": true}", "text/event-stream"},
    };
    for (size_t i = 0; i < LENGTH(generating); i++) {
        struct answer answer = daemon_post(the_daemon, generating[i].route, generating[i].body);
        char *type = answer_header(&answer, "Content-Type");
        if (answer.status != 200 || !type || strcmp(type, generating[i].type) != 0)
            fail_msg("%s: %ld %s", generating[i].route, answer.status, answer.body);
        free(type);
        answer_free(&answer);
    }
    struct answer answer = daemon_post(the_daemon, "/embed", "{\"inputs\": \"a text\"}");
    assert_int_equal(answer.status, 200);
    assert_int_equal(json_array_size(json_array_get(answer.json, 0)), 1024);
    answer_free(&answer);
    answer = daemon_post(the_daemon, "/generate", "{\"inputs\": \"a text\", \"model\": \"builtin\"}");
    assert_int_equal(answer.status, 422);
    assert_non_null(strstr(answer.body, "model \\\"builtin\\\" cannot generate"));
    answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_texts_are_continued_as_by_the_library),
        cmocka_unit_test(test_the_model_has_defaults_for_choosing_tokens),
        cmocka_unit_test(test_only_requests_that_generate_choose_the_writer),
    };
    return cmocka_run_group_tests_name("writer", tests, start, stop);
}
