/* --cors-allow-origin: the headers that let pages of other origins read answers. */
#include "tests/http/daemon.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static struct daemon *listed, *open_to_all, *closed;

static int start(void **state)
{
    (void)state;
    listed = daemon_start(ARGUMENTS("--api-key", "secret", "--payload-limit", "1024", "--cors-allow-origin",
                                    "https://a.example,http://b.example:81"));
    open_to_all = daemon_start(ARGUMENTS("--cors-allow-origin", "*"));
    closed = daemon_start(NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(listed);
    daemon_stop(open_to_all);
    daemon_stop(closed);
    return 0;
}

static void expect_origin(const struct answer *answer, const char *origin)
{
    expect_header(answer, "Access-Control-Allow-Origin", origin);
}

static struct answer ask(struct daemon *daemon, const char *method, const char *path, const char *origin,
                         const char *further)
{
    return daemon_call(daemon, &(struct call){.method = method, .path = path, .headers = {origin, further}});
}

static void only_listed_origins_are_allowed(void **state)
{
    (void)state;
    static const struct {
        const char *header, *allowed;
    } origins[] = {
        {"Origin: https://a.example", "https://a.example"},
        {"Origin: http://b.example:81", "http://b.example:81"},
        {"Origin: http://a.example", NULL},
        {"Origin: https://a.example.evil.example", NULL},
        {"Origin: https://a.exampl", NULL},
        {"Origin: https://a.example,http://b.example:81", NULL},
        {"Origin: null", NULL},
        {NULL, NULL},
    };
    for (size_t i = 0; i < LENGTH(origins); i++) {
        struct answer answer = ask(listed, NULL, "/health", origins[i].header, NULL);
        assert_int_equal(answer.status, 200);
        expect_origin(&answer, origins[i].allowed);
        expect_header(&answer, "Vary", "Origin");
        expect_header(&answer, "Access-Control-Expose-Headers", origins[i].allowed ? "*" : NULL);
        answer_free(&answer);
    }
}

/* A browser sends a preflight request without the key, and needs a status of success. */
static void a_preflight_needs_no_key(void **state)
{
    (void)state;
    struct answer answer =
        ask(listed, "OPTIONS", "/embed", "Origin: https://a.example", "Access-Control-Request-Method: POST");
    assert_int_equal(answer.status, 204);
    expect_origin(&answer, "https://a.example");
    expect_header(&answer, "Access-Control-Allow-Methods", "POST, OPTIONS");
    expect_header(&answer, "Access-Control-Allow-Headers", "*, Authorization");
    expect_header(&answer, "Access-Control-Max-Age", "7200");
    expect_header(&answer, "Vary", "Origin");
    answer_free(&answer);
    answer = ask(listed, "OPTIONS", "/embed", "Origin: https://c.example", NULL);
    assert_int_equal(answer.status, 204);
    expect_origin(&answer, NULL);
    expect_header(&answer, "Access-Control-Allow-Methods", NULL);
    answer_free(&answer);
}

static void errors_have_the_cors_headers(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body, *further;
        long status;
    } cases[] = {
        {"/embed", "{\"inputs\": \"a\"}", NULL, 401},
        {"/embed", "{\"inputs\": 1}", "api-key: secret", 422},
        {"/nothing", "{}", "api-key: secret", 404},
        {"/v2", "{}", "api-key: secret", 405},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer answer =
            daemon_call(listed, &(struct call){.path = cases[i].path,
                                               .body = cases[i].body,
                                               .headers = {"Origin: https://a.example",
                                                           "Content-Type: application/json", cases[i].further}});
        assert_int_equal(answer.status, cases[i].status);
        expect_origin(&answer, "https://a.example");
        expect_header(&answer, "Vary", "Origin");
        answer_free(&answer);
    }
}

/* If a chunked body grows too large, the daemon writes the answer itself, without libmicrohttpd. */
static void an_answer_before_the_end_of_a_body_has_the_cors_headers(void **state)
{
    (void)state;
    int descriptor = raw_connect(listed);
    raw_send(descriptor, "POST /embed HTTP/1.1\r\nHost: a\r\nOrigin: https://a.example\r\napi-key: secret\r\n"
                         "Transfer-Encoding: chunked\r\n\r\n");
    char chunk[2048] = "7d0\r\n";
    memset(chunk + 5, ' ', 2000);
    strcpy(chunk + 2005, "\r\n");
    raw_send(descriptor, chunk);
    char *text = raw_read_all(descriptor);
    assert_non_null(strstr(text, " 413 "));
    assert_non_null(strstr(text, "Vary: Origin\r\n"));
    assert_non_null(strstr(text, "Access-Control-Allow-Origin: https://a.example\r\n"));
    free(text);
}

static void a_stream_has_the_cors_headers(void **state)
{
    (void)state;
    struct answer answer =
        daemon_call(open_to_all, &(struct call){.path = "/generate_stream",
                                                .body = "{\"inputs\": \"a\", \"parameters\": {\"max_new_tokens\": 2}}",
                                                .headers = {"Origin: https://any.example"}});
    assert_int_equal(answer.status, 200);
    expect_header(&answer, "Content-Type", "text/event-stream");
    expect_origin(&answer, "*");
    answer_free(&answer);
}

static void without_the_setting_no_origin_is_allowed(void **state)
{
    (void)state;
    struct answer answer = ask(closed, "OPTIONS", "/embed", "Origin: https://a.example", NULL);
    assert_int_equal(answer.status, 204);
    expect_origin(&answer, NULL);
    expect_header(&answer, "Vary", NULL);
    answer_free(&answer);
}

/* The requests have the Content-Type application/x-www-form-urlencoded, which curl adds. Browsers send a POST with this
 * type to another origin without a preflight. */
static void pages_of_other_origins_are_refused(void **state)
{
    (void)state;
    static const struct {
        struct daemon **daemon;
        const char *site, *origin;
        long status;
    } cases[] = {
        {&closed, "Sec-Fetch-Site: cross-site", "Origin: https://a.example", 422},
        {&closed, "Sec-Fetch-Site: same-site", "Origin: http://localhost:1", 422},
        {&closed, "Sec-Fetch-Site: cross-site", NULL, 422},
        {&closed, "Sec-Fetch-Site: same-origin", "Origin: http://localhost", 200},
        {&closed, "Sec-Fetch-Site: none", NULL, 200},
        {&closed, NULL, "Origin: https://a.example", 200}, /* a browser would also send Sec-Fetch-Site */
        {&listed, "Sec-Fetch-Site: cross-site", "Origin: https://a.example", 200},
        {&listed, "Sec-Fetch-Site: cross-site", "Origin: https://c.example", 422},
        {&open_to_all, "Sec-Fetch-Site: cross-site", "Origin: https://c.example", 200},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        struct answer answer = daemon_call(
            *cases[i].daemon,
            &(struct call){.path = "/embed",
                           .body = "{\"inputs\": \"a\"}",
                           .headers = {"api-key: secret", cases[i].site ? cases[i].site : "A: b", cases[i].origin}});
        if (answer.status != cases[i].status)
            fail_msg("case %zu: %ld %s", i, answer.status, answer.body);
        answer_free(&answer);
    }
    struct answer answer =
        daemon_call(closed, &(struct call){.path = "/info", .headers = {"Sec-Fetch-Site: cross-site"}});
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
}

static void wrong_origins_are_refused_at_the_start(void **state)
{
    (void)state;
    static const char *const wrong[] = {"https://a.example/", "a.example",   "https://a.example,*",
                                        "https://",           "https://a b", "https://A.example",
                                        "https://a.example,", "https://*.a"};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        char *said;
        int status;
        const struct daemon_options options = {.arguments = ARGUMENTS("--cors-allow-origin", wrong[i])};
        assert_null(daemon_open(&options, &said, &status));
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
        assert_non_null(strstr(said, "--cors-allow-origin: expected * or origins such as https://app.example"));
        free(said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_listed_origins_are_allowed),
        cmocka_unit_test(a_preflight_needs_no_key),
        cmocka_unit_test(errors_have_the_cors_headers),
        cmocka_unit_test(pages_of_other_origins_are_refused),
        cmocka_unit_test(an_answer_before_the_end_of_a_body_has_the_cors_headers),
        cmocka_unit_test(a_stream_has_the_cors_headers),
        cmocka_unit_test(without_the_setting_no_origin_is_allowed),
        cmocka_unit_test(wrong_origins_are_refused_at_the_start),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
