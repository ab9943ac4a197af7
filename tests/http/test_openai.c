/* /v1/embeddings and /v1/models: the requests of OpenAI's clients, and the fields of answers and errors that these
 * clients read. */
#include "tests/http/the_daemon.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 192 /* number of columns of a vector of the model "builtin" */

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--payload-limit", "8192", "--max-client-batch-size", "4"));
    return 0;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    assert_non_null(text);
    return text;
}

static const json_t *embedding_at(const json_t *answer, size_t index)
{
    return json_object_get(json_array_get(json_object_get(answer, "data"), index), "embedding");
}

/* Expects an error of OpenAI's form, and frees the answer. If `code` is NULL, the JSON value must be null. */
static void expect_error(struct answer *answer, long status, const char *type, const char *code, const char *part)
{
    const json_t *error = json_object_get(answer->json, "error"), *found = json_object_get(error, "code");
    if (answer->status != status || !json_is_object(error))
        print_error("expected %ld \"%s\", found %ld %s\n", status, part, answer->status, answer->body);
    assert_int_equal(answer->status, status);
    assert_int_equal(json_object_size(answer->json), 1);
    assert_int_equal(json_object_size(error), 4);
    assert_string_equal(text_at(error, "type"), type);
    assert_true(json_is_null(json_object_get(error, "param")));
    if (!strstr(text_at(error, "message"), part))
        fail_msg("\"%s\" is not in: %s", part, text_at(error, "message"));
    if (code)
        assert_string_equal(json_string_value(found), code);
    else
        assert_true(json_is_null(found));
    answer_free(answer);
}

static void expect_invalid(const char *body, const char *part)
{
    struct answer answer = daemon_post(the_daemon, "/v1/embeddings", body);
    expect_error(&answer, 400, "invalid_request_error", NULL, part);
}

static void texts_have_vectors_of_length_one(void **state)
{
    (void)state;
    json_t *answer = daemon_post_json(the_daemon, "/v1/embeddings",
                                      "{\"input\": [\"some text\", \"more\"], \"model\": \"builtin\","
                                      " \"encoding_format\": \"float\", \"user\": \"somebody\"}");
    const json_t *usage = json_object_get(answer, "usage");
    assert_int_equal(json_object_size(answer), 4);
    assert_string_equal(text_at(answer, "object"), "list");
    assert_string_equal(text_at(answer, "model"), "builtin");
    assert_int_equal(json_integer_value(json_object_get(usage, "prompt_tokens")), 13);
    assert_int_equal(json_integer_value(json_object_get(usage, "total_tokens")), 13);
    assert_int_equal(json_array_size(json_object_get(answer, "data")), 2);
    for (size_t i = 0; i < 2; i++) {
        const json_t *item = json_array_get(json_object_get(answer, "data"), i);
        double sum = 0;

        assert_int_equal(json_object_size(item), 3);
        assert_string_equal(text_at(item, "object"), "embedding");
        assert_int_equal(json_integer_value(json_object_get(item, "index")), i);
        assert_int_equal(json_array_size(embedding_at(answer, i)), COLUMNS);
        for (size_t c = 0; c < COLUMNS; c++)
            sum += pow(json_number_at(embedding_at(answer, i), c), 2);
        assert_true(fabs(sum - 1) < 1e-5);
    }
    json_decref(answer);
}

/* An input may be ids or text, alone or in a list. Each form returns the vector of /embed. */
static void ids_and_texts_are_the_same_input(void **state)
{
    (void)state;
    static const char *const inputs[] = {"\"ab\"", "[\"ab\"]", "[100, 101]", "[[100, 101]]"};
    json_t *native = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"ab\"}");
    for (size_t i = 0; i < LENGTH(inputs); i++) {
        for (int brief = 0; brief < 2; brief++) {
            char body[128];
            json_t *answer;

            snprintf(body, sizeof body, "{\"input\": %s, \"model\": \"builtin\"}", inputs[i]);
            answer = daemon_post_json(the_daemon, brief ? "/embeddings" : "/v1/embeddings", body);
            assert_true(json_equal(embedding_at(answer, 0), json_array_get(native, 0)));
            json_decref(answer);
        }
    }
    json_decref(native);
}

/* OpenAI's Python client requests base64 by default. */
static void base64_contains_the_same_floats(void **state)
{
    (void)state;
    const char *body = "{\"input\": \"ab\", \"encoding_format\": \"base64\", \"dimensions\": 5}";
    const char *native_body = "{\"inputs\": \"ab\", \"encoding_format\": \"base64\", \"dimensions\": 5}";
    json_t *answer = daemon_post_json(the_daemon, "/v1/embeddings", body);
    json_t *native = daemon_post_json(the_daemon, "/embed", native_body);
    /* 5 floats are 20 bytes, which are 28 characters of base64. */
    assert_int_equal(json_string_length(embedding_at(answer, 0)), 28);
    assert_true(json_equal(embedding_at(answer, 0), json_array_get(native, 0)));
    json_decref(native);
    json_decref(answer);
}

static void dimensions_cut_and_normalise_again(void **state)
{
    (void)state;
    json_t *answer = daemon_post_json(the_daemon, "/v1/embeddings", "{\"input\": \"ab\", \"dimensions\": 3}");
    double sum = 0;
    assert_int_equal(json_array_size(embedding_at(answer, 0)), 3);
    for (size_t c = 0; c < 3; c++)
        sum += pow(json_number_at(embedding_at(answer, 0), c), 2);
    assert_true(fabs(sum - 1) < 1e-5);
    json_decref(answer);
    /* `dimensions` 0 means all dimensions. */
    answer = daemon_post_json(the_daemon, "/v1/embeddings", "{\"input\": \"ab\", \"dimensions\": 0}");
    assert_int_equal(json_array_size(embedding_at(answer, 0)), 192);
    json_decref(answer);
}

static void models_are_listed(void **state)
{
    (void)state;
    struct answer list = daemon_get(the_daemon, "/v1/models"), one = daemon_get(the_daemon, "/v1/models/builtin");
    const json_t *data = json_object_get(list.json, "data");
    assert_int_equal(list.status, 200);
    assert_int_equal(one.status, 200);
    assert_string_equal(text_at(list.json, "object"), "list");
    assert_int_equal(json_array_size(data), 2);
    assert_true(json_equal(json_array_get(data, 0), one.json));
    assert_string_equal(text_at(json_array_get(data, 1), "id"), "builtin-writer");
    assert_string_equal(text_at(one.json, "id"), "builtin");
    assert_string_equal(text_at(one.json, "object"), "model");
    assert_string_equal(text_at(one.json, "owned_by"), "linformerd");
    assert_true(json_integer_value(json_object_get(one.json, "created")) > 1700000000);
    answer_free(&list);
    answer_free(&one);
}

static void unknown_models_are_404(void **state)
{
    (void)state;
    struct answer answer = daemon_get(the_daemon, "/v1/models/text-embedding-3-small");
    expect_error(&answer, 404, "invalid_request_error", "model_not_found", "only \"builtin\"");
    answer = daemon_post(the_daemon, "/v1/embeddings", "{\"input\": \"a\", \"model\": \"text-embedding-3-small\"}");
    expect_error(&answer, 404, "invalid_request_error", "model_not_found", "\"text-embedding-3-small\"");
}

/* LangChain sends ids of OpenAI's vocabulary, which has about a hundred thousand ids. */
static void ids_of_another_vocabulary_are_refused(void **state)
{
    (void)state;
    expect_invalid("{\"input\": [[100], [9906, 1917]], \"model\": \"builtin\"}",
                   "input[1][0] is 9906; ids of model \"builtin\" are below 259");
}

static void invalid_bodies_are_refused_with_their_fault(void **state)
{
    (void)state;
    static const struct {
        const char *body, *part;
    } cases[] = {
        {"{\"model\": \"builtin\"}", "`input` is missing"},
        {"{\"input\": null}", "`input` is missing"},
        {"{\"input\": \"\"}", "input is empty"},
        {"{\"input\": []}", "input is empty"},
        {"{\"input\": {}}", "input is an object"},
        {"{\"input\": [\"a\", 1]}", "input[1] is an integer"},
        {"{\"input\": [1.5]}", "input[0] is a float"},
        {"{\"input\": [\"a\", \"b\", \"c\", \"d\", \"e\"]}", "at most 4"},
        {"{\"input\": \"a\", \"dimensions\": 193}", "have 192"},
        {"{\"input\": \"a\", \"dimensions\": -1}", "dimensions is -1"},
        {"{\"input\": \"a\", \"encoding_format\": \"int8\"}", "encoding_format is \"int8\""},
        {"{\"inputs\": \"a\"}", "`input` is missing"},
        {"{\"input\": \"a\", \"model\": 3}", "model is an integer"},
        {"{\"input\": ", "not JSON"},
        {"[]", "the body is a list"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        expect_invalid(cases[i].body, cases[i].part);
}

static void errors_before_the_body_have_the_same_form(void **state)
{
    (void)state;
    struct answer answer = daemon_get(the_daemon, "/v1/edits");
    char *large = calloc(1, 9001);
    expect_error(&answer, 404, "invalid_request_error", NULL, "no such path");
    answer = daemon_get(the_daemon, "/embeddings");
    expect_error(&answer, 405, "invalid_request_error", NULL, "POST");
    answer = daemon_call(the_daemon, &(struct call){.path = "/v1/embeddings",
                                                    .body = "{\"input\": \"a\"}",
                                                    .headers = {"Content-Type: text/plain"}});
    expect_error(&answer, 415, "invalid_request_error", NULL, "text/plain");
    memset(large, ' ', 9000);
    answer = daemon_post(the_daemon, "/v1/embeddings", large);
    expect_error(&answer, 413, "invalid_request_error", NULL, "8192");
    answer = daemon_call(the_daemon,
                         &(struct call){.path = "/v1/embeddings",
                                        .body = large,
                                        .headers = {"Content-Type: application/json", "Transfer-Encoding: chunked"}});
    expect_error(&answer, 413, "invalid_request_error", NULL, "8192");
    free(large);
}

static void an_api_key_is_required(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--api-key", "secret"));
    struct answer answer = daemon_post(daemon, "/v1/embeddings", "{\"input\": \"a\"}");
    expect_error(&answer, 401, "invalid_request_error", "invalid_api_key", "API key");
    answer = daemon_get(daemon, "/v1/models");
    expect_error(&answer, 401, "invalid_request_error", "invalid_api_key", "API key");
    answer = daemon_call(daemon, &(struct call){.path = "/v1/models", .headers = {"Authorization: Bearer secret"}});
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    daemon_stop(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_have_vectors_of_length_one),
        cmocka_unit_test(ids_and_texts_are_the_same_input),
        cmocka_unit_test(base64_contains_the_same_floats),
        cmocka_unit_test(dimensions_cut_and_normalise_again),
        cmocka_unit_test(models_are_listed),
        cmocka_unit_test(unknown_models_are_404),
        cmocka_unit_test(ids_of_another_vocabulary_are_refused),
        cmocka_unit_test(invalid_bodies_are_refused_with_their_fault),
        cmocka_unit_test(errors_before_the_body_have_the_same_form),
        cmocka_unit_test(an_api_key_is_required),
    };
    return cmocka_run_group_tests(tests, start, the_daemon_stop);
}
