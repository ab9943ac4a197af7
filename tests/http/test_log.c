/* The daemon's log: the text of its lines. If nobody reads the log, the daemon does not block. */
#include "tests/http/daemon.h"

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CASES "tests/reference/"

enum { REQUESTS = 4000 }; /* lines of 4000 requests do not fit into the pipe and the daemon's buffer */

static struct daemon *start_unread(const char *const *arguments)
{
    char last_line[1024];
    struct daemon *daemon = daemon_try(&(struct daemon_options){.arguments = arguments, .log_unread = true}, last_line);
    assert_non_null(daemon);
    return daemon;
}

static int64_t metric(const struct daemon *daemon, const char *name)
{
    struct answer answer = daemon_get(daemon, "/metrics");
    char line[128];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *found = strstr(answer.body, line);
    assert_non_null(found);
    int64_t value = atoll(found + strlen(line));
    answer_free(&answer);
    return value;
}

/* Reads until a line contains `part`. Returns the JSON of the line. The test drops the reference. */
static json_t *next_line_with(struct daemon *daemon, const char *part)
{
    char line[8192];
    while (daemon_log_line(daemon, line, sizeof line)) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        if (strstr(line, part))
            return object;
        json_decref(object);
    }
    fail_msg("the log ended before a line with \"%s\"", part);
    return NULL;
}

static void an_unread_log_delays_no_request(void **state)
{
    (void)state;
    struct daemon *daemon = start_unread(ARGUMENTS("--access-log"));
    CURL *curl = curl_easy_init();
    for (int i = 0; i < REQUESTS; i++) {
        struct answer answer = daemon_call(daemon, &(struct call){.path = "/health", .curl = curl});
        assert_int_equal(answer.status, 200);
        answer_free(&answer);
    }
    curl_easy_cleanup(curl);
    int64_t dropped = metric(daemon, "linformerd_log_lines_dropped_total");
    assert_true(dropped > 0 && dropped < REQUESTS);
    daemon_terminate(daemon);
    daemon_join(daemon);
}

static void lost_lines_are_reported_once_there_is_room(void **state)
{
    (void)state;
    struct daemon *daemon = start_unread(ARGUMENTS("--log-level", "debug", "--log-format", "json"));
    CURL *curl = curl_easy_init();
    for (int i = 0; i < REQUESTS; i++) {
        struct answer answer = daemon_call(daemon, &(struct call){.path = "/health", .curl = curl});
        answer_free(&answer);
    }
    curl_easy_cleanup(curl);
    int64_t dropped = metric(daemon, "linformerd_log_lines_dropped_total");
    json_t *line = next_line_with(daemon, "log lines were lost");
    int64_t told = json_integer_value(json_object_get(line, "lines"));
    /* The lines of the last request and of the scrape may be dropped after the scrape has counted. */
    assert_true(told >= dropped && told <= dropped + 2);
    assert_string_equal(json_string_value(json_object_get(line, "level")), "warning");
    json_decref(line);
    struct answer answer = daemon_get(daemon, "/no/longer/lost");
    answer_free(&answer);
    json_decref(next_line_with(daemon, "/no/longer/lost"));
    daemon_terminate(daemon);
    json_decref(next_line_with(daemon, "stopped"));
    daemon_join(daemon);
}

/* The number of log lines about results that are not finite is limited, so a client cannot fill a disk. */
static void lines_about_results_that_are_not_finite_are_limited(void **state)
{
    (void)state;
    static const char *const arguments[] = {"--model", CASES "linformer_encoder", "--log-format", "json", NULL};
    struct daemon *daemon = start_unread(arguments);
    struct answer info = daemon_get(daemon, "/info");
    const json_t *input =
        json_array_get(json_object_get(json_array_get(json_object_get(info.json, "models"), 0), "inputs"), 0);
    int64_t columns = json_integer_value(json_object_get(input, "columns")), told = 0, lines = 0;
    size_t size = (size_t)columns * 8 + 64;
    char *body = calloc(1, size), line[8192];
    CURL *curl = curl_easy_init();
    struct timespec begin, end;
    strcpy(body, "{\"embeddings\": [[");
    for (int64_t i = 0; i < columns; i++)
        strcat(body, i % 2 ? ",3e38" : i > 0 ? ",-3e38" : "-3e38");
    strcat(body, "]]}");
    answer_free(&info);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int i = 0; i < 700; i++) {
        struct answer answer = daemon_call(
            daemon, &(struct call){
                        .path = "/embed", .body = body, .headers = {"Content-Type: application/json"}, .curl = curl});
        assert_int_equal(answer.status, 500);
        answer_free(&answer);
    }
    daemon_terminate(daemon);
    while (daemon_log_line(daemon, line, sizeof line)) {
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        if (strstr(line, "a result is not finite")) {
            lines++;
            told += 1 + json_integer_value(json_object_get(object, "left_out"));
        }
        json_decref(object);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    daemon_join(daemon);
    print_message("%lld lines for %lld of 700 results\n", (long long)lines, (long long)told);
    assert_true(lines >= 1 && lines <= end.tv_sec - begin.tv_sec + 2);
    assert_true(told <= 700 && told >= lines);
    curl_easy_cleanup(curl);
    free(body);
}

static void expect_text(const json_t *object, const char *key, const char *value)
{
    assert_non_null(json_string_value(json_object_get(object, key)));
    assert_string_equal(json_string_value(json_object_get(object, key)), value);
}

static void the_line_of_a_request_has_all_facts(void **state)
{
    (void)state;
    static const char *const arguments[] = {"--log-level", "debug", "--log-format", "json", NULL};
    struct daemon *daemon = start_unread(arguments);
    struct answer answer =
        daemon_call(daemon, &(struct call){.path = "/embed",
                                           .body = "{\"inputs\": \"four\"}",
                                           .headers = {"Content-Type: application/json", "x-request-id: mine-1"}});
    assert_int_equal(answer.status, 200);
    size_t length = answer.length;
    answer_free(&answer);
    json_t *line = next_line_with(daemon, "\"request\"");
    expect_text(line, "request_id", "mine-1");
    expect_text(line, "method", "POST");
    expect_text(line, "path", "/embed");
    expect_text(line, "model", "builtin");
    assert_int_equal(strncmp(json_string_value(json_object_get(line, "client")), "127.0.0.1:", 10), 0);
    assert_int_equal(json_integer_value(json_object_get(line, "status")), 200);
    assert_int_equal(json_integer_value(json_object_get(line, "tokens")), 4);
    assert_int_equal(json_integer_value(json_object_get(line, "bytes")), length);
    double ms = json_real_value(json_object_get(line, "ms"));
    double queue_ms = json_real_value(json_object_get(line, "queue_ms"));
    double inference_ms = json_real_value(json_object_get(line, "inference_ms"));
    /* Each of the three times is rounded to 0.001 ms. */
    assert_true(inference_ms > 0 && queue_ms > 0 && queue_ms + inference_ms < ms + 0.002);
    json_decref(line);
    answer = daemon_call(daemon, &(struct call){.method = "DELETE", .path = "/no%0a%22such%22"});
    assert_int_equal(answer.status, 404);
    answer_free(&answer);
    line = next_line_with(daemon, "\"request\"");
    expect_text(line, "method", "DELETE");
    expect_text(line, "path", "/no\n\"such\"");
    assert_int_equal(json_integer_value(json_object_get(line, "status")), 404);
    assert_null(json_object_get(line, "model"));
    json_decref(line);
    char path[201 + 400];
    memset(path, 'p', sizeof path - 1);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    int descriptor = raw_connect(daemon);
    raw_send(descriptor, "GET ");
    raw_send(descriptor, path);
    raw_send(descriptor, " HTTP/1.0\r\n\r\n");
    free(raw_read_all(descriptor));
    close(descriptor);
    line = next_line_with(daemon, "\"request\"");
    assert_int_equal(strlen(json_string_value(json_object_get(line, "path"))), 256);
    json_decref(line);
    daemon_terminate(daemon);
    daemon_join(daemon);
}

/* Reads until a line of text contains `part`. */
static void text_line_with(struct daemon *daemon, const char *part, char line[8192])
{
    do {
        if (!daemon_log_line(daemon, line, 8192))
            fail_msg("the log ended before a line with \"%s\"", part);
    } while (!strstr(line, part));
}

static void expect_part(const char *line, const char *part)
{
    if (!strstr(line, part))
        fail_msg("%s lacks \"%s\"", line, part);
}

static void the_access_log_has_a_line_of_info_for_each_request(void **state)
{
    (void)state;
    struct daemon *daemon = start_unread(ARGUMENTS("--access-log"));
    char line[8192], bytes[64];
    struct answer answer = daemon_call(daemon, &(struct call){.path = "/info", .headers = {"x-request-id: mine-2"}});
    snprintf(bytes, sizeof bytes, " status=200 bytes=%zu tokens=0 ms=", answer.length);
    answer_free(&answer);
    text_line_with(daemon, "request_id=mine-2", line);
    expect_part(line, "Z INFO request client=127.0.0.1:");
    expect_part(line, " method=GET path=/info status=");
    expect_part(line, bytes);
    expect_part(line, " queue_ms=0.000 inference_ms=0.000");

    answer = daemon_call(daemon, &(struct call){.method = "HEAD", .path = "/info"});
    answer_free(&answer);
    text_line_with(daemon, " method=HEAD ", line);
    expect_part(line, " status=200 bytes=0 ");

    /* The logged number of bytes of a streamed answer is the number that the client received. */
    answer = daemon_call(daemon, &(struct call){.path = "/generate_stream",
                                                .body = "{\"inputs\": \"a\", \"parameters\": {\"max_new_tokens\": 9}}",
                                                .headers = {"Content-Type: application/json"}});
    assert_int_equal(answer.status, 200);
    assert_true(answer.length > 0);
    snprintf(bytes, sizeof bytes, " status=200 bytes=%zu ", answer.length);
    answer_free(&answer);
    text_line_with(daemon, "path=/generate_stream", line);
    expect_part(line, bytes);
    daemon_stop(daemon);
}

static void without_the_access_log_a_request_has_no_line_of_info(void **state)
{
    (void)state;
    struct daemon *daemon = start_unread(NULL);
    char line[8192];
    struct answer answer = daemon_get(daemon, "/info");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    daemon_terminate(daemon);
    while (daemon_log_line(daemon, line, sizeof line))
        assert_null(strstr(line, "INFO request "));
    daemon_join(daemon);
}

/* Returns the request id in the header of the answer. The test frees it. */
static char *id_of(const struct daemon *daemon, const struct call *call, long status)
{
    struct answer answer = daemon_call(daemon, call);
    char *id = answer_header(&answer, "x-request-id");
    assert_int_equal(answer.status, status);
    assert_non_null(id);
    answer_free(&answer);
    return id;
}

static void every_answer_has_a_request_id(void **state)
{
    (void)state;
    static const char trace[] = "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    struct daemon *daemon = daemon_start(ARGUMENTS("--payload-limit", "1024"));
    static const struct {
        struct call call;
        long status;
        const char *id; /* NULL: the daemon chooses the id */
    } cases[] = {
        {{.path = "/health", .headers = {"x-request-id: mine"}}, 200, "mine"},
        {{.path = "/health", .headers = {trace}}, 200, "4bf92f3577b34da6a3ce929d0e0e4736"},
        {{.path = "/health", .headers = {trace, "X-Request-Id: mine"}}, 200, "mine"},
        {{.path = "/health", .headers = {"x-request-id: two words"}}, 200, NULL},
        {{.path = "/nowhere", .headers = {"x-request-id: mine"}}, 404, "mine"},
        {{.path = "/embed", .headers = {"x-request-id: mine"}}, 405, "mine"},
        {{.path = "/embed", .body = "{", .headers = {"x-request-id: mine", "Content-Type: text/plain"}}, 415, "mine"},
        {{.path = "/v1/embeddings", .body = "{}", .headers = {"Content-Type: application/json"}}, 400, NULL},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char *id = id_of(daemon, &cases[i].call, cases[i].status), *next = NULL;
        if (cases[i].id) {
            assert_string_equal(id, cases[i].id);
        } else {
            next = id_of(daemon, &cases[i].call, cases[i].status);
            assert_int_equal(strspn(id, "0123456789abcdef"), 32);
            assert_string_not_equal(id, next);
        }
        free(id);
        free(next);
    }
    daemon_stop(daemon);
}

/* If a body grows too large, the daemon answers without libmicrohttpd. */
static void an_answer_in_the_middle_of_a_body_has_a_request_id(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--payload-limit", "1024"));
    int descriptor = raw_connect(daemon);
    char part[1100];
    memset(part, ' ', sizeof part - 1);
    part[sizeof part - 1] = '\0';
    raw_send(descriptor, "POST /embed HTTP/1.1\r\nHost: x\r\nx-request-id: mine\r\nTransfer-Encoding: chunked\r\n\r\n"
                         "44b\r\n");
    raw_send(descriptor, part);
    char *answer = raw_read_all(descriptor);
    assert_int_equal(strncmp(answer, "HTTP/1.1 413", 12), 0);
    assert_non_null(strstr(answer, "\r\nx-request-id: mine\r\n"));
    free(answer);
    close(descriptor);
    daemon_stop(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unread_log_delays_no_request),
        cmocka_unit_test(lost_lines_are_reported_once_there_is_room),
        cmocka_unit_test(lines_about_results_that_are_not_finite_are_limited),
        cmocka_unit_test(every_answer_has_a_request_id),
        cmocka_unit_test(an_answer_in_the_middle_of_a_body_has_a_request_id),
        cmocka_unit_test(the_line_of_a_request_has_all_facts),
        cmocka_unit_test(the_access_log_has_a_line_of_info_for_each_request),
        cmocka_unit_test(without_the_access_log_a_request_has_no_line_of_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
