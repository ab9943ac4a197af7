/* --api-key: the routes that need no key, and the answers to requests with a missing or wrong key. */
#include "tests/http/the_daemon.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--api-key", "a-long-secret"));
    return 0;
}

static struct answer embed(const char *authorization)
{
    return daemon_call(the_daemon, &(struct call){.path = "/embed",
                                                  .body = "{\"inputs\": \"a\"}",
                                                  .headers = {"Content-Type: application/json", authorization}});
}

static void requests_with_the_key_are_answered(void **state)
{
    (void)state;
    static const char *const right[] = {"Authorization: Bearer a-long-secret", "authorization: bearer  a-long-secret",
                                        "api-key: a-long-secret", "Api-Key: a-long-secret "};
    for (size_t i = 0; i < LENGTH(right); i++) {
        struct answer answer = embed(right[i]);

        assert_int_equal(answer.status, 200);
        answer_free(&answer);
    }
}

static void requests_without_the_key_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        NULL,
        "Authorization: Bearer",
        "Authorization: Bearer a long secre",
        "Authorization: Bearer a-long-secret!",
        "Authorization: Bearer a-long-secreta-long-secret",
        "Authorization: Basic a-long-secret",
        "Authorization: a-long-secret",
        "X-Api-Key: a-long-secret",
        "api-key: a-long-secre",
        "api-key: Bearer a-long-secret",
        "api-key:",
    };
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        struct answer answer = embed(wrong[i]);
        char *header = answer_header(&answer, "WWW-Authenticate");

        assert_non_null(header);
        assert_string_equal(header, "Bearer");
        free(header);
        expect_failure_answer(&answer, 401, "Unauthorized", "API key");
    }
}

/* The page answers without the key, so it must not name models. */
static void the_front_page_names_no_model(void **state)
{
    (void)state;
    struct answer page = daemon_get(the_daemon, "/");
    assert_int_equal(page.status, 200);
    assert_null(strstr(page.body, "builtin"));
    assert_non_null(strstr(page.body, "needs the API key"));
    answer_free(&page);
}

/* The help of --api-key lists these paths. */
static const char *const open_paths[] = {"/",     "/health",       "/health/live",    "/health/ready",   "/metrics",
                                         "/ping", "/openapi.json", "/v2/health/live", "/v2/health/ready"};

static bool is_open(const char *path)
{
    bool found = false;
    for (size_t i = 0; i < LENGTH(open_paths); i++)
        found = found || strcmp(open_paths[i], path) == 0;
    return found;
}

/* Sends a request to each route. A route with a body would refuse GET with 405 before it checks the key. */
static void only_open_routes_need_no_key(void **state)
{
    (void)state;
    struct answer description = daemon_get(the_daemon, "/openapi.json");
    json_t *document = json_loads(description.body, 0, NULL), *operations;
    const char *path;
    size_t n_open = 0, n_closed = 0;
    assert_non_null(document);
    json_object_foreach (json_object_get(document, "paths"), path, operations) {
        bool reads = json_object_get(operations, "get") != NULL;
        struct call call = {.path = path, .body = reads ? NULL : "{}", .headers = {"Content-Type: application/json"}};
        struct answer answer = daemon_call(the_daemon, &call);
        if (answer.status != (is_open(path) ? 200 : 401))
            fail_msg("%s was answered with %ld", path, answer.status);
        n_open += is_open(path);
        n_closed += !is_open(path);
        answer_free(&answer);
    }
    assert_int_equal(n_open, LENGTH(open_paths));
    assert_in_range(n_closed, 30, 1000);
    json_decref(document);
    answer_free(&description);
}

static long metrics_status(struct daemon *daemon, const char *authorization)
{
    struct answer answer = daemon_call(daemon, &(struct call){.path = "/metrics", .headers = {authorization}});
    long status = answer.status;
    answer_free(&answer);
    return status;
}

static void metrics_can_be_protected(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--api-key", "a-long-secret", "--protect-metrics"));
    assert_int_equal(metrics_status(daemon, NULL), 401);
    assert_int_equal(metrics_status(daemon, "Authorization: Bearer wrong"), 401);
    assert_int_equal(metrics_status(daemon, "Authorization: Bearer a-long-secret"), 200);
    struct answer answer = daemon_get(daemon, "/health");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    daemon_stop(daemon);
}

/* The headers announce a body that the client never completes. */
static void the_key_is_checked_before_the_body(void **state)
{
    (void)state;
    int descriptor = raw_connect(the_daemon);
    raw_send(descriptor, "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{");
    char *answer = raw_read_all(descriptor);
    assert_int_equal(strncmp(answer, "HTTP/1.1 401", 12), 0);
    free(answer);
    close(descriptor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_with_the_key_are_answered), cmocka_unit_test(requests_without_the_key_are_refused),
        cmocka_unit_test(the_front_page_names_no_model),      cmocka_unit_test(only_open_routes_need_no_key),
        cmocka_unit_test(metrics_can_be_protected),           cmocka_unit_test(the_key_is_checked_before_the_body),
    };
    return cmocka_run_group_tests(tests, start, the_daemon_stop);
}
