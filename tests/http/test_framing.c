/* Requests whose end is ambiguous. Each is followed by a second request, in its body or after it. A proxy could read
 * the second request as a part of the first. The second request must never run: the connection ends after the first
 * answer. This answer is 400, unless the body is chunked and has no trailers. */
#include "tests/http/the_daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char smuggled[] = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--payload-limit", "200000", "--api-key", "secret"));
    return 0;
}

/* Beginnings of requests. A comment gives the status of the answer if the end of the request is certain. */
static const char *const starts[] = {
    "POST /embed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n", /* 200 */
    "POST /embed HTTP/1.1\r\nHost: x\r\n",                                 /* 401 */
    "POST /v2/models/builtin/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n",
    "GET /health HTTP/1.1\r\nHost: x\r\n",
    "POST /nothing HTTP/1.1\r\nHost: x\r\n", /* 404 */
    "POST /health HTTP/1.1\r\nHost: x\r\n",  /* 405 */
    "OPTIONS /embed HTTP/1.1\r\nHost: x\r\n",
    "POST /embed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nX-Padding: 1\r\n", /* 413 with length 999999 */
};

/* libmicrohttpd 0.9.75 itself refuses a Content-Length that is not a number. It writes its answer twice. */
static bool is_refused(const char *text)
{
    bool refused = strncmp(text, "HTTP/1.1 400 ", 13) == 0;
    for (const char *at = text; (at = strstr(at, "HTTP/1.1 ")) != NULL; at++)
        refused = refused && (strncmp(at, "HTTP/1.1 400 ", 13) == 0 || strncmp(at, "HTTP/1.1 supports", 17) == 0);
    return refused;
}

static void expect_refused(const char *begin, const char *headers)
{
    char request[2048];
    int descriptor = raw_connect(the_daemon);
    snprintf(request, sizeof request, "%s%s\r\n%s", begin, headers, smuggled);
    raw_try_send(descriptor, request, strlen(request));
    shutdown(descriptor, SHUT_WR); /* without this, a daemon that reads on would keep the connection open */
    char *answer = raw_read_all(descriptor);
    if (!is_refused(answer))
        fail_msg("sent:\n%s\nfound:\n%s", request, answer);
    free(answer);
    close(descriptor);
}

static void bodies_of_ambiguous_length_are_refused(void **state)
{
    (void)state;
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
        "Host: x\r\n", /* a second Host */
        "X: y\r\nhost: other\r\n",
        "Host:\r\n",
    };
    for (size_t s = 0; s < LENGTH(starts); s++) {
        for (size_t i = 0; i < LENGTH(headers); i++)
            expect_refused(starts[s], headers[i]);
    }
    expect_refused("POST /embed HTTP/1.0\r\nHost: x\r\n", "Transfer-Encoding: chunked\r\n");
}

/* libmicrohttpd ends a value at a NUL. */
static void header_values_with_a_nul_are_refused(void **state)
{
    (void)state;
    static const char *const values[] = {"0", "34", "chunked"};
    static const char *const names[] = {"Content-Length", "Content-Length", "Transfer-Encoding"};
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

/* The request line contains a NUL, several NULs, or %00. In some lines, the bytes after the first NUL look like the end
 * of the line. */
static void a_nul_in_the_request_line_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t length;
    } lines[] = {
#define LINE(text) {text, sizeof(text) - 1}
        LINE("GET /health\0 HTTP/1.1"),         LINE("GET /health\0x HTTP/1.1"),
        LINE("GET /health\0HTTP/1.1 HTTP/1.1"), LINE("GET /health\0?a=b HTTP/1.1"),
        LINE("GET /health?\0 HTTP/1.1"),        LINE("GET /health?a\0b=c HTTP/1.1"),
        LINE("GET /health?a=b\0 HTTP/1.1"),     LINE("GET /health?a=b&c\0d=e HTTP/1.1"),
        LINE("GET /he%61lth\0 HTTP/1.1"),       LINE("GET /he%61lth?%41=%42\0\0 HTTP/1.1"),
        LINE("GET \0/health HTTP/1.1"),         LINE("GET\0 /health HTTP/1.1"),
        LINE("\0GET /health HTTP/1.1"),         LINE("GET /health HTTP/1.1\0"),
        LINE("GET /health%00 HTTP/1.1"),        LINE("GET /health%00x HTTP/1.1"),
        LINE("GET /health?a=%00 HTTP/1.1"),     LINE("GET /nothing\0 HTTP/1.1"),
        LINE("POST /embed\0 HTTP/1.1"),
    };
    static const char rest[] = "\r\nHost: x\r\nAuthorization: Bearer secret\r\n\r\n";
    for (size_t i = 0; i < LENGTH(lines); i++) {
        int descriptor = raw_connect(the_daemon);
        raw_try_send(descriptor, lines[i].bytes, lines[i].length);
        raw_try_send(descriptor, rest, sizeof rest - 1);
        raw_try_send(descriptor, smuggled, sizeof smuggled - 1);
        shutdown(descriptor, SHUT_WR);
        char *answer = raw_read_all(descriptor);
        if (!is_refused(answer))
            fail_msg("line %zu: %s", i, answer);
        free(answer);
        close(descriptor);
    }
}

/* A folded header is found at any position. The padding moves the end of the headers over all positions modulo 64,
 * because libmicrohttpd rounds sizes of memory. */
static void folded_headers_are_refused_at_every_place(void **state)
{
    (void)state;
    for (int padding = 0; padding < 64; padding++) {
        char start[256];

        snprintf(start, sizeof start, "POST /embed HTTP/1.1\r\nHost: %0*d\r\n", padding + 1, 0);
        expect_refused(start, "Content:  34\r\n -Length\r\n");
        expect_refused(start, "X:         y\r\n z\r\n");
    }
}

/* RFC 9112, section 3: one space separates method and path. A request of HTTP/1.1 has exactly one header Host, with
 * a valid value. */
static void ambiguous_request_lines_and_hosts_are_refused(void **state)
{
    (void)state;
    static const char *const begins[] = {
        "GET  /health HTTP/1.1\r\nHost: x\r\n",
        "POST   /embed HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\n",
        "GET  /health?a=b HTTP/1.1\r\nHost: x\r\n",
        "GET /health HTTP/1.1\r\n",
        "GET /health HTTP/1.2\r\n",
        "GET /health HTTP/1.0\r\nHost: x\r\nHost: x\r\n",
        "GET /health HTTP/1.1\r\nHost: x y\r\n",
        "GET /health HTTP/1.1\r\nHost: x/y\r\n",
        "GET /health HTTP/1.1\r\nHost: user@x\r\n",
        "GET /health HTTP/1.1\r\nHost: \xc3\xa4\r\n",
    };
    for (size_t i = 0; i < LENGTH(begins); i++)
        expect_refused(begins[i], "");
}

/* Sends a chunked body, followed by the second request. Expects that only the first request is answered, with `status`,
 * and that the connection ends. If `status` is NULL, any status is accepted. */
static void expect_last(const char *begin, const char *body, const char *status)
{
    char request[2048];
    int descriptor = raw_connect(the_daemon);
    int length = snprintf(request, sizeof request, "%sTransfer-Encoding: chunked\r\n\r\n%s%s", begin, body, smuggled);
    assert_in_range(length, 1, sizeof request - 1);
    raw_try_send(descriptor, request, (size_t)length);
    shutdown(descriptor, SHUT_WR); /* without this, a daemon that reads on would keep the connection open */
    char *answer = raw_read_all(descriptor);
    bool first = strncmp(answer, "HTTP/1.1 ", 9) == 0 && (!status || strncmp(answer + 9, status, 3) == 0);
    if (!first || strstr(answer + 1, "HTTP/1.1 ") || !strstr(answer, "\r\nConnection: close\r\n"))
        fail_msg("sent:\n%s\nfound:\n%s", request, answer);
    free(answer);
    close(descriptor);
}

#define DATA "{\"inputs\": \"chunked\"}" /* 0x15 bytes */
#define CHUNK "15\r\n" DATA "\r\n"

/* libmicrohttpd accepts bare line ends, and extensions in the lines of chunk sizes. A proxy may interpret them
 * differently. */
static void a_chunked_body_is_the_last_of_its_connection(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        CHUNK "0\r\n\r\n",
        "15\n" DATA "\r\n0\r\n\r\n",
        "15\r\n" DATA "\n0\r\n\r\n",
        CHUNK "0\n\r\n",
        CHUNK "0\r\n\n",
        CHUNK "0\n\n",
        "15;x\r\n" DATA "\r\n0\r\n\r\n",
        "15;x\n" DATA "\r\n0\r\n\r\n",
        "15;x\ry\r\n" DATA "\r\n0\r\n\r\n",
        "15;x=\"\n\"\r\n" DATA "\r\n0\r\n\r\n",
        CHUNK "0;x\n\r\n",
        "000000015\r\n" DATA "\r\n0\r\n\r\n",
        "015 \r\n" DATA "\r\n0\r\n\r\n",
    };
    expect_last(starts[0], CHUNK "0\r\n\r\n", "200");
    for (size_t i = 0; i < LENGTH(bodies); i++) {
        for (size_t s = 0; s < LENGTH(starts); s++)
            expect_last(starts[s], bodies[i], NULL);
    }
}

static void a_chunked_body_with_trailers_is_refused(void **state)
{
    (void)state;
    static const char *const trailers[] = {
        "A: b\r\n",
        "A: b\r\n c\r\n",
        "A: b\r\n\tContent-Length: 9\r\n",
        "A: b\n",
        "A: b\nContent-Length: 9\r\n",
        "A: b\r\nC: d\r\n",
        "Content-Length : 9\r\n",
        "Content-Length: 9\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Host: other\r\n",
        "Authorization: Bearer secret\r\n",
        ": b\r\n",
        "A:\r\n",
        " A: b\r\n",
    };
    for (size_t i = 0; i < LENGTH(trailers); i++) {
        char body[256];
        snprintf(body, sizeof body, "%s0\r\n%s\r\n", CHUNK, trailers[i]);
        expect_last(starts[0], body, "400");
        expect_last("GET /health HTTP/1.1\r\nHost: x\r\n", body, "400");
    }
}

/* Requests whose end is certain are served. After a GET of an unknown path, the connection also stays open. */
static void ordinary_headers_are_accepted(void **state)
{
    (void)state;
    static const char *const headers[] = {
        "",
        "Accept: */*\r\nUser-Agent: a (b; c) d/1.0\r\n",
        "Cookie: a=b; c=\"d e\"\r\nX-Empty:\r\nX-Spaces:    \r\nX-Tab: \ta\t b\r\n",
        "X-High: \xc3\xa4\xff\r\nX_Y.z~!#$%&'*+-^`|: \"\\,;:@\r\n",
        "content-length: 0\r\n",
    };
    static const char *const hosts[] = {"x", "", "a-b_c.example:8080", "[::1]:80", "127.0.0.1", "[fe80::1%25eth0]"};
    static const char *const paths[] = {"/health",          "/he%61lth",     "/health?",      "/health?a=b&c",
                                        "/health?%41=%4&+", "/health?%2500", "/health?=&&a=", "/health?a?b"};
    int descriptor = raw_connect(the_daemon);
    for (int i = 0; i < 200; i++) {
        const char *fields = headers[(size_t)i % LENGTH(headers)];
        bool missing = i % 7 == 0;
        char *request = malloc(32768);

        assert_non_null(request);
        snprintf(request, 32768, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Long: %0*d\r\n%s\r\n",
                 missing ? "/nothing" : paths[(size_t)i % LENGTH(paths)], hosts[(size_t)i % LENGTH(hosts)],
                 1 + i * 97 % 12000, i, fields);
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
        cmocka_unit_test(bodies_of_ambiguous_length_are_refused),
        cmocka_unit_test(ambiguous_request_lines_and_hosts_are_refused),
        cmocka_unit_test(a_chunked_body_is_the_last_of_its_connection),
        cmocka_unit_test(a_chunked_body_with_trailers_is_refused),
        cmocka_unit_test(header_values_with_a_nul_are_refused),
        cmocka_unit_test(a_nul_in_the_request_line_is_refused),
        cmocka_unit_test(folded_headers_are_refused_at_every_place),
        cmocka_unit_test(ordinary_headers_are_accepted),
    };
    return cmocka_run_group_tests(tests, start, the_daemon_stop);
}
