/* Each client that misbehaves receives an answer or a closed connection. Other clients are not affected. */
#include "tests/http/the_daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const char head[] = "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--payload-limit", "200000"));
    return 0;
}

static void others_are_served(void)
{
    struct answer answer = daemon_post(the_daemon, "/embed", "{\"inputs\": \"fine\"}");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
}

/* Sends the text, reads until the end of the connection, and expects a status. */
static void expect_raw(const char *text, const char *status_line)
{
    int descriptor = raw_connect(the_daemon);
    raw_send(descriptor, text);
    char *answer = raw_read_all(descriptor);
    if (strncmp(answer, status_line, strlen(status_line)) != 0)
        print_error("sent:\n%s\nexpected %s, found:\n%s\n", text, status_line, answer);
    assert_int_equal(strncmp(answer, status_line, strlen(status_line)), 0);
    free(answer);
    close(descriptor);
}

/* The request line lacks a URL or a version. libmicrohttpd 0.9 closes the connection if the URL is missing, and answers
 * 400 if the version is missing. libmicrohttpd 1.0 closes the connection in both cases. */
static void expect_refused(const char *text)
{
    int descriptor = raw_connect(the_daemon);
    raw_send(descriptor, text);
    char *answer = raw_read_all(descriptor);
    if (*answer != '\0' && strncmp(answer, "HTTP/1.1 400", 12) != 0)
        fail_msg("sent:\n%s\nfound:\n%s\n", text, answer);
    free(answer);
    close(descriptor);
}

static void bytes_that_are_not_http_are_refused(void **state)
{
    (void)state;
    expect_refused("nonsense\r\n\r\n");
    expect_refused("nonsense nonsense\r\n\r\n");
    expect_raw("GET /health HTTP/9.9\r\n\r\n", "HTTP/1.1 505");
    expect_raw("POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: abc\r\n\r\n", "HTTP/1.1 400");
    expect_raw("POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\nContent-Length: 3\r\n\r\n{\"inputs\": \"a\"}",
               "HTTP/1.1 400");
    expect_raw("POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n", "HTTP/1.1 400");
    expect_raw("POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n", "HTTP/1.1 413");
    expect_raw("POST /embed HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", "HTTP/1.1 400");
    expect_raw("POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3\r\n{}\n\r\n0\r\n\r\n",
               "HTTP/1.1 400");
    others_are_served();
}

static void endless_headers_are_refused(void **state)
{
    (void)state;
    int descriptor = raw_connect(the_daemon);
    raw_send(descriptor, "GET /health HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 10000; i++) {
        if (!raw_try_send(descriptor, "X-Filler: yes yes yes yes\r\n", 27))
            break;
    }
    shutdown(descriptor, SHUT_WR);
    char *answer = raw_read_all(descriptor);
    assert_int_equal(strncmp(answer, "HTTP/1.1 431", 12), 0);
    free(answer);
    close(descriptor);
    others_are_served();
}

/* The client writes the whole body before it reads. It must still receive the answer. */
static void a_client_with_a_body_too_large_receives_its_refusal(void **state)
{
    (void)state;
    enum { SIZE = 8 << 20 };
    char *body = calloc(1, SIZE), *answer;
    int descriptor = raw_connect(the_daemon);
    char length[64];
    memset(body, ' ', SIZE);
    snprintf(length, sizeof length, "Content-Length: %d\r\n\r\n", SIZE);
    raw_send(descriptor, head);
    raw_send(descriptor, length);
    raw_try_send(descriptor, body, SIZE);
    answer = raw_read_all(descriptor);
    assert_int_equal(strncmp(answer, "HTTP/1.1 413", 12), 0);
    assert_non_null(strstr(answer, "\"error_type\":\"Validation\""));
    free(answer);
    free(body);
    close(descriptor);
}

static void an_endless_chunked_body_is_broken_off(void **state)
{
    (void)state;
    enum { CHUNK = 4096 };
    char chunk[CHUNK + 16], *answer;
    int descriptor = raw_connect(the_daemon), length = sprintf(chunk, "%x\r\n", CHUNK);
    memset(chunk + length, ' ', CHUNK);
    memcpy(chunk + length + CHUNK, "\r\n", 2);
    raw_send(descriptor, head);
    raw_send(descriptor, "Transfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 2000; i++) {
        if (!raw_try_send(descriptor, chunk, (size_t)length + CHUNK + 2))
            break;
    }
    answer = raw_read_all(descriptor);
    assert_int_equal(strncmp(answer, "HTTP/1.1 413", 12), 0);
    assert_non_null(strstr(answer, "200000"));
    free(answer);
    close(descriptor);
    others_are_served();
}

static void chunks_of_one_byte_form_a_body(void **state)
{
    (void)state;
    const char *body = "{\"inputs\": \"chunked\"}";
    int descriptor = raw_connect(the_daemon);
    raw_send(descriptor, head);
    raw_send(descriptor, "Transfer-Encoding: chunked\r\n\r\n");
    for (const char *at = body; *at; at++) {
        char chunk[16];

        snprintf(chunk, sizeof chunk, "1\r\n%c\r\n", *at);
        raw_send(descriptor, chunk);
    }
    raw_send(descriptor, "0\r\n\r\n");
    char *answer = raw_read_answer(descriptor);
    assert_int_equal(strncmp(answer, "HTTP/1.1 200", 12), 0);
    free(answer);
    close(descriptor);
}

static void expect_100_continue_is_answered(void **state)
{
    (void)state;
    int descriptor = raw_connect(the_daemon);
    raw_send(descriptor, head);
    raw_send(descriptor, "Expect: 100-continue\r\nContent-Length: 15\r\n\r\n");
    char *answer = raw_read_answer(descriptor);
    assert_int_equal(strncmp(answer, "HTTP/1.1 100", 12), 0);
    free(answer);
    raw_send(descriptor, "{\"inputs\": \"a\"}");
    answer = raw_read_answer(descriptor);
    assert_int_equal(strncmp(answer, "HTTP/1.1 200", 12), 0);
    free(answer);
    close(descriptor);
    expect_raw("POST /embed HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 300000\r\n\r\n",
               "HTTP/1.1 413");
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    int descriptor = raw_connect(the_daemon);
    const char *last = "GET /health HTTP/1.1\r\nHost: x\r\n\r\n";
    char *answer;
    for (int i = 0; i < 3; i++) {
        raw_send(descriptor, head);
        raw_send(descriptor, "Content-Length: 15\r\n\r\n{\"inputs\": \"a\"}");
    }
    raw_send(descriptor, last);
    for (int i = 0; i < 4; i++) {
        answer = raw_read_answer(descriptor);
        assert_int_equal(strncmp(answer, "HTTP/1.1 200", 12), 0);
        assert_int_equal(strstr(answer, "{\"status\"") != NULL, i == 3);
        free(answer);
    }
    close(descriptor);
}

static void clients_that_leave_do_no_harm(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        int descriptor = raw_connect(the_daemon);
        struct linger reset = {.l_onoff = 1, .l_linger = 0};

        raw_send(descriptor, head);
        if (i % 3 == 1)
            raw_send(descriptor, "Content-Length: 15\r\n\r\n{\"inp");
        if (i % 3 == 2)
            raw_send(descriptor, "Content-Length: 15\r\n\r\n{\"inputs\": \"a\"}");
        if (i % 2)
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(descriptor);
    }
    others_are_served();
}

static void an_http_1_0_client_is_answered_and_closed(void **state)
{
    (void)state;
    expect_raw("GET /health HTTP/1.0\r\n\r\n", "HTTP/1.1 200");
    expect_raw("GET http://127.0.0.1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200");
    expect_raw("GET https://127.0.0.1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200");
}

static void slow_bodies_delay_no_other_request(void **state)
{
    (void)state;
    enum { SLOW = 64 };
    int descriptors[SLOW];
    for (int i = 0; i < SLOW; i++) {
        descriptors[i] = raw_connect(the_daemon);
        raw_send(descriptors[i], head);
        raw_send(descriptors[i], "Content-Length: 15\r\n\r\n{\"inputs\"");
    }
    others_are_served();
    for (int i = 0; i < SLOW; i++) {
        char *answer;

        raw_send(descriptors[i], ": \"a\"}");
        answer = raw_read_answer(descriptors[i]);
        assert_int_equal(strncmp(answer, "HTTP/1.1 200", 12), 0);
        free(answer);
        close(descriptors[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_that_are_not_http_are_refused),
        cmocka_unit_test(endless_headers_are_refused),
        cmocka_unit_test(a_client_with_a_body_too_large_receives_its_refusal),
        cmocka_unit_test(an_endless_chunked_body_is_broken_off),
        cmocka_unit_test(chunks_of_one_byte_form_a_body),
        cmocka_unit_test(expect_100_continue_is_answered),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(clients_that_leave_do_no_harm),
        cmocka_unit_test(an_http_1_0_client_is_answered_and_closed),
        cmocka_unit_test(slow_bodies_delay_no_other_request),
    };
    return cmocka_run_group_tests(tests, start, the_daemon_stop);
}
