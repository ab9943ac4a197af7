/* Requests whose end is uncertain. Each brings a second request in its body, which a proxy in front would have taken
 * for part of the first. It must never run: the answer is 400, and the connection ends. */
#include "tests/http/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct daemon *the_daemon;

static const char smuggled[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--payload-limit", "200000", "--api-key", "secret"));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    return 0;
}

/* Where a request goes, and what its answer would be with a certain end. */
static const char *const starts[] = {
    "POST /embed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n", /* 200 */
    "POST /embed HTTP/1.1\r\nHost: x\r\n",                                 /* 401 */
    "POST /v2/models/builtin/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n",
    "GET /health HTTP/1.1\r\nHost: x\r\n",
    "POST /nothing HTTP/1.1\r\nHost: x\r\n", /* 404 */
    "POST /health HTTP/1.1\r\nHost: x\r\n",  /* 405 */
    "OPTIONS /embed HTTP/1.1\r\nHost: x\r\n",
    "POST /embed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nX-Padding: 1\r\n", /* 413, with 999999 */
};

/* libmicrohttpd 0.9.75 itself refuses a Content-Length that is no number, and writes that answer twice. */
static bool is_refused(const char *text)
{
    bool refused = strncmp(text, "HTTP/1.1 400 ", 13) == 0;

    for (const char *at = text; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++)
        refused = refused && (strncmp(at, "HTTP/1.1 400 ", 13) == 0 || strncmp(at, "HTTP/1.1 has", 12) == 0);
    return refused;
}

static void expect_refused(const char *begin, const char *headers)
{
    char request[2048];
    int descriptor = raw_connect(the_daemon);

    snprintf(request, sizeof request, "%s%s\r\n%s", begin, headers, smuggled);
    raw_try_send(descriptor, request, strlen(request));
    shutdown(descriptor, SHUT_WR); /* a daemon that goes on reading ends all the same */
    char *answer = raw_read_all(descriptor);
    if (!is_refused(answer))
        fail_msg("sent:\n%s\nfound:\n%s", request, answer);
    free(answer);
    close(descriptor);
}

static void an_uncertain_end_is_refused(void **state)
{
    static const char *const headers[] = {
        "Content-Length: 0\r\nContent-Length: 34\r\n",
        "Content-Length: 34\r\nContent-Length: 0\r\n",
        "Content-Length: 34\r\nX: y\r\ncontent-length: 34\r\n",
        "Content-Length: 999999\r\nContent-Length: 0\r\n",
        "Content-Length: 34, 34\r\n",
        "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 34\r\n",
        "Content-Length : 34\r\n",
        "Content-Length\t: 34\r\n",
        " Content-Length: 34\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding:\r\n",
        "Transfer-Encoding: \x0b"
        "chunked\r\n",
        "Transfer-Encoding: chunked\r\n \r\n",
        "Content-Length: 0\r\n 34\r\n",
        "Content-Length:\r\n 34\r\n",
        "Content-Length: 34\r\n \r\n",
        "Content: 34\r\n -Length\r\n",
        "Content: 34\r\n\t-Length\r\nX: y\r\n",
        "X: y\r\n Content-Length: 34\r\n",
        "X: y\r\n z\r\n",
        "X:   y\r\n z\r\n",
        "X: y\r\n\tTransfer-Encoding: chunked\r\nY: z\r\n",
        "X: y\rContent-Length: 34\r\n",
        "X: y\nContent-Length: 34\r\n",
        "Content-Length: 34\n",
        ": 34\r\n",
        ":\r\nContent-Length: 34\r\n",
        "Content-Length: +34\r\n",
        "Content-Length: -34\r\n",
        "Content-Length: 0x22\r\n",
        "Content-Length: 3 4\r\n",
        "Content-Length: 34.\r\n",
        "Content-Length: abc\r\n",
        "Content-Length:\r\n",
        "Content Length: 34\r\n",
        "Content-Length\r\n",
        "(Content-Length): 34\r\n",
    };

    (void)state;
    for (size_t s = 0; s < LENGTH(starts); s++) {
        for (size_t i = 0; i < LENGTH(headers); i++)
            expect_refused(starts[s], headers[i]);
    }
    expect_refused("POST /embed HTTP/1.0\r\nHost: x\r\n", "Transfer-Encoding: chunked\r\n");
}

/* libmicrohttpd ends a value at a NUL, and a fold may lie anywhere in the buffer. */
static void bytes_behind_a_nul_are_not_overlooked(void **state)
{
    static const char *const values[] = {"0", "34", "chunked"};
    static const char *const names[] = {"Content-Length", "Content-Length", "Transfer-Encoding"};

    (void)state;
    for (size_t i = 0; i < LENGTH(names); i++) {
        for (int last = 0; last < 2; last++) {
            char request[512];
            int length = snprintf(request, sizeof request, "POST /embed HTTP/1.1\r\nHost: x\r\n%s: %s%c34\r\n%s\r\n%s",
                                  names[i], values[i], '\0', last ? "" : "X: y\r\n", smuggled);
            int descriptor = raw_connect(the_daemon);

            raw_try_send(descriptor, request, (size_t)length);
            shutdown(descriptor, SHUT_WR);
            char *answer = raw_read_all(descriptor);
            assert_true(is_refused(answer));
            free(answer);
            close(descriptor);
        }
    }
}

/* The headers end at each place of a buffer of 16 bytes and of 32 KiB, which libmicrohttpd rounds to and has. */
static void folds_are_found_wherever_they_lie(void **state)
{
    (void)state;
    for (int padding = 0; padding < 64; padding++) {
        char start[256];

        snprintf(start, sizeof start, "POST /embed HTTP/1.1\r\nHost: %0*d\r\n", padding + 1, 0);
        expect_refused(start, "Content:  34\r\n -Length\r\n");
        expect_refused(start, "X:         y\r\n z\r\n");
    }
}

/* Whose end is certain is served, and refused without a body it keeps its connection. */
static void ordinary_headers_are_none_of_these(void **state)
{
    static const char *const headers[] = {
        "",
        "Accept: */*\r\nUser-Agent: a (b; c) d/1.0\r\n",
        "Cookie: a=b; c=\"d e\"\r\nX-Empty:\r\nX-Spaces:    \r\nX-Tab: \ta\t b\r\n",
        "X-High: \xc3\xa4\xff\r\nX_Y.z~!#$%&'*+-^`|: \"\\,;:@\r\n",
        "content-length: 0\r\n",
        "TRANSFER-ENCODING: Chunked\r\n",
    };
    int descriptor = raw_connect(the_daemon);

    (void)state;
    for (int i = 0; i < 200; i++) {
        const char *fields = headers[(size_t)i % LENGTH(headers)];
        bool chunked = strstr(fields, "TRANSFER") != NULL, missing = i % 7 == 0 && !chunked;
        char *request = malloc(32768);

        assert_non_null(request);
        snprintf(request, 32768, "GET %s HTTP/1.1\r\nHost: x\r\nX-Long: %0*d\r\n%s\r\n%s",
                 missing ? "/nothing" : "/health", 1 + i * 97 % 12000, i, fields, chunked ? "0\r\n\r\n" : "");
        raw_send(descriptor, request);
        char *answer = raw_read_answer(descriptor);
        if (strncmp(answer, missing ? "HTTP/1.1 404 " : "HTTP/1.1 200 ", 13) != 0)
            fail_msg("sent:\n%s\nfound:\n%s", request, answer);
        free(answer);
        free(request);
    }
    close(descriptor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_uncertain_end_is_refused),
        cmocka_unit_test(bytes_behind_a_nul_are_not_overlooked),
        cmocka_unit_test(folds_are_found_wherever_they_lie),
        cmocka_unit_test(ordinary_headers_are_none_of_these),
    };

    return cmocka_run_group_tests(tests, start, stop);
}
