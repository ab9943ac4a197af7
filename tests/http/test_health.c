/* Health, readiness, /info and /metrics of a daemon that serves. */
#include "tests/http/the_daemon.h"

#include <stdlib.h>
#include <string.h>

static void health_is_ok_on_all_its_paths(void **state)
{
    (void)state;
    const char *paths[] = {"/health", "/health/live", "/health/ready", "/health?probe=1"};
    for (size_t i = 0; i < LENGTH(paths); i++) {
        struct answer answer = daemon_get(the_daemon, paths[i]);
        char *type = answer_header(&answer, "Content-Type");

        assert_int_equal(answer.status, 200);
        assert_string_equal(type, "application/json");
        assert_string_equal(json_string_value(json_object_get(answer.json, "status")), "ok");
        free(type);
        answer_free(&answer);
    }
}

/* GET / returns this page to clients that do not accept text/html. Load balancers without a configured path also
 * request it. */
static void the_front_page_lists_models_and_routes(void **state)
{
    (void)state;
    static const char *const parts[] = {"<title>linformerd</title>",
                                        "<li>builtin: linear",
                                        "<a href=\"info\">/info</a>",
                                        "<a href=\"health\">/health</a>",
                                        "<a href=\"metrics\">/metrics</a>",
                                        "POST /embed\n",
                                        "POST /v1/embeddings\n",
                                        "POST /v2/models/{}/infer\n"};
    struct answer page = daemon_get(the_daemon, "/");
    struct answer head = daemon_call(the_daemon, &(struct call){.method = "HEAD", .path = "/"});
    char *type = answer_header(&page, "Content-Type");
    assert_int_equal(page.status, 200);
    assert_string_equal(type, "text/html; charset=utf-8");
    for (size_t i = 0; i < LENGTH(parts); i++) {
        if (!strstr(page.body, parts[i]))
            fail_msg("the page has no %s", parts[i]);
    }
    assert_int_equal(head.status, 200);
    assert_int_equal(head.length, 0);
    free(type);
    answer_free(&page);
    answer_free(&head);
}

/* The operator may give a model any name, so the page escapes it. */
static void the_front_page_escapes_names(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "<b>&=tests/reference/linformer_lm"));
    struct answer page = daemon_get(daemon, "/");
    assert_non_null(strstr(page.body, "<li>&lt;b&gt;&amp;: linformer.LinformerLM\n"));
    answer_free(&page);
    daemon_stop(daemon);
}

static void info_has_the_keys_that_clients_of_tei_read(void **state)
{
    (void)state;
    static const char *const keys[] = {"model_id",
                                       "model_sha",
                                       "model_dtype",
                                       "model_type",
                                       "max_concurrent_requests",
                                       "max_input_length",
                                       "max_batch_tokens",
                                       "max_batch_requests",
                                       "max_client_batch_size",
                                       "auto_truncate",
                                       "tokenization_workers",
                                       "version",
                                       "sha",
                                       "docker_label",
                                       "device",
                                       "dtype",
                                       "kernels",
                                       "batch_invariant",
                                       "models"};
    struct answer answer = daemon_get(the_daemon, "/info");
    json_t *model = json_array_get(json_object_get(answer.json, "models"), 0);
    assert_int_equal(answer.status, 200);
    for (size_t i = 0; i < LENGTH(keys); i++)
        assert_non_null(json_object_get(answer.json, keys[i]));
    assert_string_equal(json_string_value(json_object_get(answer.json, "model_id")), "builtin");
    assert_string_equal(json_string_value(json_object_get(answer.json, "model_dtype")), "float32");
    assert_string_equal(json_string_value(json_object_get(model, "name")), "builtin");
    assert_int_equal(json_integer_value(json_object_get(model, "vocabulary")), 259);
    assert_string_equal(json_string_value(json_object_get(model, "tokenizer")), "byte");
    assert_true(json_integer_value(json_object_get(model, "parameters")) > 0);
    assert_true(json_integer_value(json_object_get(model, "weights_bytes")) > 0);
    answer_free(&answer);
}

static void metrics_count_requests_by_route(void **state)
{
    (void)state;
    struct answer answer = daemon_post(the_daemon, "/embed", "{\"inputs\": \"count me\"}");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    answer = daemon_get(the_daemon, "/no/such/path/as/this");
    answer_free(&answer);
    answer = daemon_get(the_daemon, "/metrics");
    char *type = answer_header(&answer, "Content-Type");
    assert_int_equal(answer.status, 200);
    assert_int_equal(strncmp(type, "text/plain", 10), 0);
    assert_non_null(strstr(answer.body, "/embed"));
    assert_null(strstr(answer.body, "/no/such"));
    free(type);
    answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(health_is_ok_on_all_its_paths),   cmocka_unit_test(the_front_page_lists_models_and_routes),
        cmocka_unit_test(the_front_page_escapes_names),    cmocka_unit_test(info_has_the_keys_that_clients_of_tei_read),
        cmocka_unit_test(metrics_count_requests_by_route),
    };
    return cmocka_run_group_tests(tests, the_daemon_start, the_daemon_stop);
}
