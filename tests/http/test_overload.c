/* Requests that exceed the memory, the queue or the time limit: 429 and 504. */
#include "tests/http/daemon.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the body of a request with `count` inputs of 1024 tokens each. The test frees it. */
static char *large_body(int count)
{
    enum { TOKENS = 1024 };
    char *body = malloc((size_t)count * (TOKENS + 3) + 32), *at = body;
    assert_non_null(body);
    at += sprintf(at, "{\"inputs\": [");
    for (int i = 0; i < count; i++) {
        at += sprintf(at, "%s\"", i ? "," : "");
        memset(at, 'x', TOKENS);
        at += TOKENS;
        *at++ = '"';
    }
    strcpy(at, "]}");
    return body;
}

/* Sends the body without waiting for the answer. Returns when the request is in the queue. */
static int occupy(struct daemon *daemon, const char *body)
{
    int descriptor = raw_connect(daemon);
    char head[256];
    snprintf(head, sizeof head,
             "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             strlen(body));
    raw_send(descriptor, head);
    raw_send(descriptor, body);
    for (;;) {
        struct answer answer = daemon_get(daemon, "/metrics");
        const char *waiting = strstr(answer.body, "\nlinformerd_queue_requests{model=\"builtin\"} ");
        int count = waiting ? atoi(strchr(waiting, ' ')) : 0;

        answer_free(&answer);
        if (count > 0)
            return descriptor;
        usleep(1000);
    }
}

static void a_full_queue_is_429_until_it_has_room(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--max-queue-requests", "1", "--max-batch-tokens", "1024"));
    char *body = large_body(2000);
    int descriptor = occupy(daemon, body);
    struct answer answer = daemon_post(daemon, "/embed", "{\"inputs\": \"small\"}");
    char *retry = answer_header(&answer, "Retry-After");
    assert_non_null(retry);
    assert_true(atoi(retry) >= 1);
    free(retry);
    expect_failure_answer(&answer, 429, "Overloaded", "full");
    answer = daemon_get(daemon, "/health");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    close(descriptor); /* so the daemon stops the large request */
    do {
        answer = daemon_post(daemon, "/embed", "{\"inputs\": \"small\"}");
        if (answer.status == 429)
            answer_free(&answer);
    } while (answer.status == 0);
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    free(body);
    daemon_stop(daemon);
}

/* Slow clients send half of a large body, and later a few more bytes. Together they hold all the memory for large
 * bodies. A part of the memory is reserved for small requests. The daemon can accept another large request only after
 * it has cut off a slow client. */
static void slow_large_bodies_do_not_block_other_clients(void **state)
{
    (void)state;
    enum { SLOW = 8, LIMIT = 8 << 20, LARGE = 4 << 20 };
    struct daemon *daemon = daemon_start(ARGUMENTS("--payload-limit", "8388608"));
    char *spaces = malloc(LIMIT / 2 + 65536), *large = malloc(LARGE + 1);
    int descriptors[SLOW];
    struct answer answer;
    memset(spaces, ' ', LIMIT / 2 + 65536);
    memset(large, ' ', LARGE);
    memcpy(large, "{\"inputs\": \"a\"}", 15);
    large[LARGE] = '\0';
    for (int i = 0; i < SLOW; i++) {
        descriptors[i] = raw_connect(daemon);
        raw_send(descriptors[i], "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                 "Content-Length: 8388608\r\n\r\n");
        raw_try_send(descriptors[i], spaces, LIMIT / 2 + 65536);
    }
    usleep(300000); /* Gives the bytes time to arrive. If they arrive later, the test is weaker, but does not fail. */
    answer = daemon_post(daemon, "/embed", "{\"inputs\": \"small\"}");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    for (int attempt = 0;; attempt++) {
        answer = daemon_post(daemon, "/embed", large);
        if (answer.status == 200)
            break;
        answer_free(&answer);
        assert_in_range(attempt, 0, 600);
        usleep(50000);
        for (int i = 0; i < SLOW; i++)
            raw_try_send(descriptors[i], " ", 1);
    }
    answer_free(&answer);
    for (int i = 0; i < SLOW; i++)
        close(descriptors[i]);
    free(spaces);
    free(large);
    daemon_stop(daemon);
}

/* A thousand batches take longer than the time limit of one millisecond. */
static void past_its_deadline_a_request_is_504(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--request-timeout-ms", "1", "--max-batch-tokens", "1024"));
    char *body = large_body(1000);
    expect_failure(daemon, "/embed", body, 504, "Backend", "deadline");
    free(body);
    daemon_stop(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_queue_is_429_until_it_has_room),
        cmocka_unit_test(past_its_deadline_a_request_is_504),
        cmocka_unit_test(slow_large_bodies_do_not_block_other_clients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
