/* Wrong requests: status, form and message of the answers. */
#include "tests/http/the_daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--max-client-batch-size", "4", "--payload-limit", "4096"));
    return 0;
}

struct wrong {
    const char *body, *part;
};

static void bodies_that_are_not_json_are_400(void **state)
{
    (void)state;
    static const struct wrong cases[] = {
        {"{\"inputs\": \"a\"", "line 1 column"},
        {"{\n\"inputs\":\n nonsense}", "line 3 column"},
        {"{\"inputs\": \"a\"} {}", "not JSON"},
        {"{\"inputs\": [NaN]}", "not JSON"},
        {"{\"inputs\": \"\xFF\"}", "not JSON"},
        {"{\"inputs\\u0000\": \"a\"}", "NUL"},
        {"{\"inputs\": \"\\uD800\"}", "not JSON"},
        {"{\"inputs\": \"a\", \"inputs\": \"b\"}", "not JSON"},
        {" ", "not JSON"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        expect_failure(the_daemon, "/embed", cases[i].body, 400, "Validation", cases[i].part);
}

static void an_empty_body_is_400(void **state)
{
    (void)state;
    struct answer answer = daemon_post(the_daemon, "/embed", "");
    expect_failure_answer(&answer, 400, "Validation", "empty");
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    char body[4000];
    memset(body, '[', sizeof body - 1);
    body[sizeof body - 1] = '\0';
    expect_failure(the_daemon, "/embed", body, 400, "Validation", "nested");
}

static void wrong_shapes_are_422_and_named(void **state)
{
    (void)state;
    static const struct wrong cases[] = {
        {"[]", "the body is a list"},
        {"\"text\"", "the body is a string"},
        {"null", "the body is null"},
        {"{}", "`inputs` is missing"},
        {"{\"inputs\": null}", "`inputs` is missing"},
        {"{\"inputs\": 5}", "inputs is an integer"},
        {"{\"inputs\": {}}", "inputs is empty"},
        {"{\"inputs\": \"\"}", "inputs is empty"},
        {"{\"inputs\": []}", "inputs is empty"},
        {"{\"inputs\": [[]]}", "inputs[0] is empty"},
        {"{\"inputs\": [\"a\", \"\"]}", "inputs[1] is empty"},
        {"{\"inputs\": [1, \"a\"]}", "inputs[1] is a string"},
        {"{\"inputs\": [\"a\", 1]}", "inputs[1] is an integer"},
        {"{\"inputs\": [1.0]}", "inputs[0] is a float"},
        {"{\"inputs\": [[1, 2], [3, null]]}", "inputs[1][1] is null"},
        {"{\"inputs\": [[1], [2], [3], [4, 260]]}", "inputs[3][1] is 260; ids of model \"builtin\" are below 259"},
        {"{\"inputs\": [-1]}", "inputs[0] is -1"},
        {"{\"inputs\": [99999999999999999999]}", "line 1 column 32: a number is out of range"},
        {"{\"embeddings\": [[1e999]]}", "a number is out of range"},
        {"{\"inputs\": [4294967300]}", "inputs[0] is 4294967300"},
        {"{\"inputs\": [1], \"embeddings\": [[1]]}", "both"},
        {"{\"inputs\": [\"a\", \"b\", \"c\", \"d\", \"e\"]}", "at most 4"},
        {"{\"inputs\": \"a\", \"truncate\": \"true\"}", "truncate is a string"},
        {"{\"inputs\": \"a\", \"truncation_direction\": \"Up\"}", "truncation_direction is \"Up\""},
        {"{\"inputs\": \"a\", \"pooling\": \"sum\"}", "pooling is \"sum\""},
        {"{\"inputs\": \"a\", \"encoding_format\": \"hex\"}", "encoding_format is \"hex\""},
        {"{\"inputs\": \"a\", \"dimensions\": -1}", "dimensions is -1"},
        {"{\"inputs\": \"a\", \"dimensions\": 193}", "have 192"},
        {"{\"inputs\": \"a\", \"model\": 1}", "model is an integer"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        expect_failure(the_daemon, "/embed", cases[i].body, 422, "Validation", cases[i].part);
}

static void tokenize_and_decode_refuse_wrong_inputs(void **state)
{
    (void)state;
    expect_failure(the_daemon, "/tokenize", "{\"inputs\": [1]}", 422, "Validation", "inputs[0] is an integer");
    expect_failure(the_daemon, "/tokenize", "{\"inputs\": []}", 422, "Validation", "empty");
    expect_failure(the_daemon, "/tokenize", "{}", 422, "Validation", "missing");
    expect_failure(the_daemon, "/decode", "{\"ids\": [259]}", 422, "Validation", "ids[0] is 259");
    expect_failure(the_daemon, "/decode", "{\"ids\": [[3], 3]}", 422, "Validation", "ids[1] is an integer");
    expect_failure(the_daemon, "/decode", "{\"ids\": \"a\"}", 422, "Validation", "ids is a string");
}

static void keys_with_null_count_as_absent(void **state)
{
    (void)state;
    json_t *list =
        daemon_post_json(the_daemon, "/embed",
                         "{\"inputs\": \"a\", \"prompt_name\": null, \"normalize\": null, \"truncate\": null,"
                         " \"truncation_direction\": null, \"dimensions\": null, \"model\": null}");
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
}

static void unknown_paths_and_models_are_404(void **state)
{
    (void)state;
    expect_failure(the_daemon, "/embedd", "{\"inputs\": \"a\"}", 404, "Validation", "path");
    expect_failure(the_daemon, "/embed/", "{\"inputs\": \"a\"}", 404, "Validation", "path");
    expect_failure(the_daemon, "/embed", "{\"inputs\": \"a\", \"model\": \"\\u00e9\\\"x\"}", 404, "Validation",
                   "only \"builtin\"");
    struct answer answer = daemon_get(the_daemon, "/favicon.ico");
    expect_failure_answer(&answer, 404, "Validation", "path");
}

static void wrong_methods_are_405_with_allow(void **state)
{
    (void)state;
    static const struct {
        const char *method, *path, *allow;
    } cases[] = {
        {"GET", "/embed", "POST, OPTIONS"},
        {"DELETE", "/health", "GET, HEAD, OPTIONS"},
        {"PUT", "/", "POST, GET, HEAD, OPTIONS"},
        {"POST", "/info", "GET, HEAD, OPTIONS"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer answer =
            daemon_call(the_daemon, &(struct call){.method = cases[i].method, .path = cases[i].path});
        char *allow = answer_header(&answer, "Allow");

        assert_non_null(allow);
        assert_string_equal(allow, cases[i].allow);
        free(allow);
        expect_failure_answer(&answer, 405, "Validation", cases[i].method);
    }
}

static void head_and_options_are_answered(void **state)
{
    (void)state;
    struct answer answer = daemon_call(the_daemon, &(struct call){.method = "HEAD", .path = "/health"});
    char *header = answer_header(&answer, "Content-Length");
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.length, 0);
    assert_string_equal(header, "15");
    free(header);
    answer_free(&answer);
    answer = daemon_call(the_daemon, &(struct call){.method = "OPTIONS", .path = "/embed"});
    header = answer_header(&answer, "Allow");
    assert_int_equal(answer.status, 204);
    assert_string_equal(header, "POST, OPTIONS");
    free(header);
    answer_free(&answer);
}

static void media_types_other_than_json_are_415(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        long status;
    } cases[] = {
        {"Content-Type:", 200},
        {"Content-Type: application/json; charset=utf-8", 200},
        {"Content-Type: Application/JSON", 200},
        {"Content-Type: text/plain", 415},
        {"Content-Type: application/x-www-form-urlencoded", 200}, /* the Content-Type that curl -d sends */
        {"Content-Type: application/x-www-form-urlencoded-2", 415},
        {"Content-Type: application/jsonp", 415},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer answer = daemon_call(the_daemon, &(struct call){.path = "/embed?trailing=query",
                                                                      .body = "{\"inputs\": \"a\"}",
                                                                      .headers = {cases[i].header}});

        assert_int_equal(answer.status, cases[i].status);
        if (answer.status == 200)
            answer_free(&answer);
        else
            expect_failure_answer(&answer, 415, "Validation", "application/json was expected");
    }
}

static void compressed_bodies_are_415(void **state)
{
    (void)state;
    struct answer answer = daemon_call(
        the_daemon, &(struct call){.path = "/embed",
                                   .body = "{\"inputs\": \"a\"}",
                                   .headers = {"Content-Type: application/json", "Content-Encoding: gzip"}});
    expect_failure_answer(&answer, 415, "Validation", "gzip");
}

static void bodies_beyond_the_limit_are_413(void **state)
{
    (void)state;
    static const char *const headers[] = {"Content-Type: application/json", "Transfer-Encoding: chunked", "Expect:"};
    char *body = malloc(100001);
    memset(body, ' ', 100000);
    body[100000] = '\0';
    memcpy(body, "{\"inputs\": \"a\"", 14);
    body[4095] = '}';
    expect_failure(the_daemon, "/embed", body, 413, "Validation",
                   "4096 bytes that this server accepts (--payload-limit)");
    for (size_t expect = 0; expect < 2; expect++) {
        struct answer answer =
            daemon_call(the_daemon, &(struct call){.path = "/embed",
                                                   .body = body,
                                                   .headers = {headers[0], headers[1], expect ? NULL : headers[2]}});

        expect_failure_answer(&answer, 413, "Validation", "4096 bytes that this server accepts (--payload-limit)");
    }
    body[4096] = '\0';
    struct answer answer = daemon_post(the_daemon, "/embed", body);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_that_are_not_json_are_400),
        cmocka_unit_test(an_empty_body_is_400),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(wrong_shapes_are_422_and_named),
        cmocka_unit_test(tokenize_and_decode_refuse_wrong_inputs),
        cmocka_unit_test(keys_with_null_count_as_absent),
        cmocka_unit_test(unknown_paths_and_models_are_404),
        cmocka_unit_test(wrong_methods_are_405_with_allow),
        cmocka_unit_test(head_and_options_are_answered),
        cmocka_unit_test(media_types_other_than_json_are_415),
        cmocka_unit_test(compressed_bodies_are_415),
        cmocka_unit_test(bodies_beyond_the_limit_are_413),
    };
    return cmocka_run_group_tests(tests, start, the_daemon_stop);
}
