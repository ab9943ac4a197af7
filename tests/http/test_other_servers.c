/* Routes that clients of other servers expect: Amazon SageMaker, Azure, Ollama, Infinity, and
 * text-embeddings-inference. Most answers are compared with the answer of a route that other tests check. */
#include "tests/http/the_daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect_equal(json_t *found, json_t *expected)
{
    assert_non_null(expected);
    assert_true(json_equal(found, expected));
    json_decref(found);
    json_decref(expected);
}

static void ping_and_invocations_of_sagemaker_are_served(void **state)
{
    (void)state;
    struct answer ping = daemon_get(the_daemon, "/ping");
    assert_int_equal(ping.status, 200);
    answer_free(&ping);
    static const char body[] = "{\"inputs\": [\"a\", \"b\"], \"dimensions\": 3}";
    expect_equal(daemon_post_json(the_daemon, "/invocations", body), daemon_post_json(the_daemon, "/embed", body));
}

static void models_are_listed_at_each_path(void **state)
{
    (void)state;
    static const char *const lists[] = {"/models", "/openai/v1/models"};
    static const char *const ones[] = {"/models/builtin", "/openai/v1/models/builtin"};
    for (size_t i = 0; i < LENGTH(lists); i++) {
        expect_equal(daemon_get_json(the_daemon, lists[i]), daemon_get_json(the_daemon, "/v1/models"));
        expect_equal(daemon_get_json(the_daemon, ones[i]), daemon_get_json(the_daemon, "/v1/models/builtin"));
    }
    struct answer answer = daemon_get(the_daemon, "/models/none");
    assert_int_equal(answer.status, 404);
    assert_string_equal(json_string_value(json_object_get(json_object_get(answer.json, "error"), "code")),
                        "model_not_found");
    answer_free(&answer);
}

static void info_names_the_model(void **state)
{
    (void)state;
    json_t *info = daemon_get_json(the_daemon, "/info");
    assert_string_equal(json_string_value(json_object_get(info, "served_model_name")), "builtin");
    json_decref(info);
}

#define DEPLOYMENTS "/openai/deployments/"

static void the_path_of_azure_chooses_the_model(void **state)
{
    (void)state;
    static const char body[] = "{\"input\": [\"a\", \"b\"], \"model\": \"builtin-writer\", \"dimensions\": 3}";
    static const char plain[] = "{\"input\": [\"a\", \"b\"], \"dimensions\": 3}";
    expect_equal(daemon_post_json(the_daemon, DEPLOYMENTS "builtin/embeddings?api-version=2024-10-21", body),
                 daemon_post_json(the_daemon, "/v1/embeddings", plain));
    expect_equal(daemon_post_json(the_daemon, "/openai/v1/embeddings?api-version=preview", plain),
                 daemon_post_json(the_daemon, "/v1/embeddings", plain));
    struct answer answer = daemon_post(the_daemon, DEPLOYMENTS "none/embeddings", plain);
    assert_int_equal(answer.status, 404);
    answer_free(&answer);
}

/* Returns the text of the first choice. The test frees it. */
static char *completed(const char *path, const char *body)
{
    json_t *answer = daemon_post_json(the_daemon, path, body);
    assert_string_equal(json_string_value(json_object_get(answer, "model")), "builtin-writer");
    const json_t *choice = json_array_get(json_object_get(answer, "choices"), 0);
    char *text = strdup(json_string_value(json_object_get(choice, "text")));
    json_decref(answer);
    return text;
}

static void completions_of_azure_are_those_of_openai(void **state)
{
    (void)state;
    static const char body[] = "{\"prompt\": \"This option\", \"max_tokens\": 4, \"temperature\": 0}";
    char *expected = completed("/v1/completions", body);
    char *deployed = completed(DEPLOYMENTS "builtin-writer/completions?api-version=1", body);
    char *preview = completed("/openai/v1/completions", body);
    assert_string_equal(deployed, expected);
    assert_string_equal(preview, expected);
    struct answer answer = daemon_post(the_daemon, DEPLOYMENTS "builtin/completions", body);
    assert_int_equal(answer.status, 400); /* the path names a model that cannot generate */
    answer_free(&answer);
    free(expected);
    free(deployed);
    free(preview);
}

static void vectors_of_ollamas_routes_are_those_of_embed(void **state)
{
    (void)state;
    json_t *vectors = daemon_post_json(the_daemon, "/embed", "{\"inputs\": [\"a\", \"bc\"], \"dimensions\": 3}");
    json_t *answer = daemon_post_json(the_daemon, "/api/embed",
                                      "{\"model\": \"builtin\", \"input\": [\"a\", \"bc\"], \"dimensions\": 3, "
                                      "\"options\": {\"num_ctx\": 2048}, \"keep_alive\": \"5m\"}");
    assert_true(json_equal(json_object_get(answer, "embeddings"), vectors));
    assert_string_equal(json_string_value(json_object_get(answer, "model")), "builtin");
    assert_int_equal(json_integer_value(json_object_get(answer, "prompt_eval_count")), 3);
    assert_true(json_integer_value(json_object_get(answer, "total_duration")) > 0);
    json_decref(answer);

    answer = daemon_post_json(the_daemon, "/api/embeddings", "{\"prompt\": \"bc\", \"dimensions\": 3}");
    assert_true(json_equal(json_object_get(answer, "embedding"), json_array_get(vectors, 1)));
    json_decref(answer);
    json_decref(vectors);
}

/* By default, Ollama's routes truncate a text that is too long. */
static void ollamas_routes_truncate_long_texts(void **state)
{
    (void)state;
    char text[1101] = "", body[1300];
    memset(text, 'a', sizeof text - 1);
    snprintf(body, sizeof body, "{\"input\": \"%s\"}", text);
    json_t *answer = daemon_post_json(the_daemon, "/api/embed", body);
    assert_int_equal(json_integer_value(json_object_get(answer, "prompt_eval_count")), 1024);
    json_decref(answer);
    snprintf(body, sizeof body, "{\"input\": \"%s\", \"truncate\": false}", text);
    struct answer refused = daemon_post(the_daemon, "/api/embed", body);
    assert_int_equal(refused.status, 400);
    answer_free(&refused);
}

/* An error in Ollama's form has one key. */
static void bad_requests_have_errors_in_ollamas_form(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body, *part;
        long status;
    } cases[] = {
        {"/api/embed", "{\"model\": \"none\", \"input\": \"a\"}", "there is no model \"none\"", 404},
        {"/api/embed", "{\"model\": \"builtin\"}", "`input` is missing", 400},
        {"/api/embeddings", "{\"prompt\": [\"a\"]}", "use /api/embed", 400},
        {"/api/tags", NULL, "no such path", 404},
        {"/api/embed", "{", "not JSON", 400},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer answer = cases[i].body ? daemon_post(the_daemon, cases[i].path, cases[i].body)
                                             : daemon_get(the_daemon, cases[i].path);
        assert_int_equal(answer.status, cases[i].status);
        assert_int_equal(json_object_size(answer.json), 1);
        assert_non_null(strstr(json_string_value(json_object_get(answer.json, "error")), cases[i].part));
        answer_free(&answer);
    }
}

static void kinds_of_models_that_are_missing_are_reported(void **state)
{
    (void)state;
    expect_failure(the_daemon, "/rerank", "{\"query\": \"a\", \"texts\": [\"b\"]}", 422, "Validation", "cannot rerank");
    expect_failure(the_daemon, "/embed_sparse", "{\"inputs\": \"a\"}", 422, "Validation",
                   "does not return sparse vectors");
    expect_failure(the_daemon, "/rerank", "{\"model\": \"none\"}", 404, "Validation", "no model \"none\"");
    expect_failure(the_daemon, "/rerank", "[", 400, "Validation", "not JSON");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ping_and_invocations_of_sagemaker_are_served),
        cmocka_unit_test(models_are_listed_at_each_path),
        cmocka_unit_test(info_names_the_model),
        cmocka_unit_test(the_path_of_azure_chooses_the_model),
        cmocka_unit_test(completions_of_azure_are_those_of_openai),
        cmocka_unit_test(vectors_of_ollamas_routes_are_those_of_embed),
        cmocka_unit_test(ollamas_routes_truncate_long_texts),
        cmocka_unit_test(bad_requests_have_errors_in_ollamas_form),
        cmocka_unit_test(kinds_of_models_that_are_missing_are_reported),
    };
    return cmocka_run_group_tests(tests, the_daemon_start, the_daemon_stop);
}
