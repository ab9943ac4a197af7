/* /generate while all slots are in use: requests wait, within the limits of the queue. A request leaves the queue if
 * its client leaves. While the daemon drains, the timeout ends generations. */
#include "tests/http/daemon.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL "tests/reference/linear_attention_lm_causal"
#define LABEL "{model=\"linear_attention_lm_causal\"}"
#define MAX_LOOKS 30000 /* maximum number of reads of a metric, one each millisecond */

/* One thread is enough for a model of this size. More threads would mostly wait for each other. */
#define SERVED "--threads", "1", "--model", MODEL

/* Returns the value of a sample of /metrics, or -1 if it is missing. */
static double metric(const struct daemon *daemon, const char *sample)
{
    struct answer answer = daemon_get(daemon, "/metrics");
    assert_int_equal(answer.status, 200);
    const char *line = strstr(answer.body, sample);
    double value = line ? strtod(line + strlen(sample), NULL) : -1;
    answer_free(&answer);
    return value;
}

static void wait_for_metric(const struct daemon *daemon, const char *sample, double expected)
{
    double found = -1;
    for (int i = 0; i < MAX_LOOKS && (found = metric(daemon, sample)) != expected; i++)
        usleep(1000);
    if (found != expected)
        fail_msg("%s: expected %g, found %g", sample, expected, found);
}

static void wait_for_running(const struct daemon *daemon, int running, int waiting)
{
    wait_for_metric(daemon, "linformerd_generations_running" LABEL " ", running);
    wait_for_metric(daemon, "linformerd_generations_waiting" LABEL " ", waiting);
}

/* Sends a request, and leaves the connection open. */
static int begin(const struct daemon *daemon, int64_t max_new_tokens)
{
    char body[128], text[384];
    snprintf(body, sizeof body, "{\"inputs\":[1,2,3],\"parameters\":{\"max_new_tokens\":%lld}}",
             (long long)max_new_tokens);
    snprintf(text, sizeof text,
             "POST /generate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
             strlen(body), body);
    int descriptor = raw_connect(daemon);
    raw_send(descriptor, text);
    return descriptor;
}

/* Reads the answer, and closes the connection. */
static void expect_status(int descriptor, int status)
{
    char *answer = raw_read_answer(descriptor), line[32];
    snprintf(line, sizeof line, "HTTP/1.1 %d ", status);
    if (strncmp(answer, line, strlen(line)) != 0)
        fail_msg("expected %d, found %.200s", status, answer);
    if (status == 429)
        assert_non_null(strstr(answer, "Retry-After: "));
    free(answer);
    close(descriptor);
}

static void test_a_request_waits_for_a_slot(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--max-generations", "1", SERVED));
    int running = begin(daemon, 1000000);
    wait_for_running(daemon, 1, 0);
    int waiting = begin(daemon, 3);
    wait_for_running(daemon, 1, 1);
    close(running); /* the daemon notices that nobody waits for the million tokens */
    expect_status(waiting, 200);
    wait_for_running(daemon, 0, 0);
    assert_true(metric(daemon, "linformerd_generations_total{model=\"linear_attention_lm_causal\","
                               "finish_reason=\"cancelled\"} ") == 1);
    assert_true(metric(daemon, "linformerd_generations_total{model=\"linear_attention_lm_causal\","
                               "finish_reason=\"length\"} ") == 1);
    daemon_stop(daemon);
}

static void test_a_full_queue_refuses(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--max-generations", "1", "--max-queue-requests", "2", SERVED));
    int running = begin(daemon, 1000000);
    wait_for_running(daemon, 1, 0);
    int first = begin(daemon, 2), second = begin(daemon, 2);
    wait_for_running(daemon, 1, 2);
    expect_status(begin(daemon, 2), 429);
    close(running);
    expect_status(first, 200);
    expect_status(second, 200);
    daemon_stop(daemon);
}

/* All tokens of a prompt count for the limit of the queue, also those that are not in the first job. */
static void test_whole_prompts_count_in_the_queue(void **state)
{
    (void)state;
    struct daemon *daemon =
        daemon_start(ARGUMENTS("--max-generations", "1", "--max-queue-tokens", "6", "--max-batch-tokens", "2", SERVED));
    int running = begin(daemon, 1000000);
    wait_for_running(daemon, 1, 0);
    int first = begin(daemon, 2), second = begin(daemon, 2);
    wait_for_running(daemon, 1, 2);
    assert_true(metric(daemon, "linformerd_queue_tokens" LABEL " ") >= 6);
    expect_status(begin(daemon, 2), 429);
    close(running);
    expect_status(first, 200);
    expect_status(second, 200);
    daemon_stop(daemon);
}

static void test_a_client_that_leaves_leaves_the_queue(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--max-generations", "1", "--max-queue-requests", "2", SERVED));
    int running = begin(daemon, 1000000);
    wait_for_running(daemon, 1, 0);
    int leaving = begin(daemon, 2), waiting = begin(daemon, 2);
    wait_for_running(daemon, 1, 2);
    close(leaving);
    wait_for_running(daemon, 1, 1); /* the long generation still runs, and only one request waits */
    close(running);
    expect_status(waiting, 200);
    daemon_stop(daemon);
}

static void test_a_request_that_waits_too_long_is_504(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--max-generations", "1", "--request-timeout-ms", "2000", SERVED));
    int running = begin(daemon, 1000000);
    wait_for_running(daemon, 1, 0);
    expect_status(begin(daemon, 2), 504);
    wait_for_running(daemon, 1, 0); /* the timeout does not end a generation that has produced a token */
    close(running);
    daemon_stop(daemon);
}

/* ---- Draining ---- */

/* A million tokens take longer than the timeout. The generation ends when the timeout has passed since SIGTERM. */
static void test_draining_ends_generations(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--request-timeout-ms", "2000", SERVED));
    int running = begin(daemon, 1000000);
    wait_for_metric(daemon, "linformerd_time_to_first_token_seconds_count" LABEL " ", 1);
    daemon_terminate(daemon);
    char *answer = raw_read_answer(running);
    assert_memory_equal(answer, "HTTP/1.1 200 ", 13);
    assert_non_null(strstr(answer, "\"finish_reason\":\"abort\""));
    json_t *json = json_loads(strstr(answer, "\r\n\r\n") + 4, 0, NULL);
    json_t *details = json_object_get(json, "details");
    json_int_t count = json_integer_value(json_object_get(details, "generated_tokens"));
    assert_in_range(count, 1, 999999);
    assert_int_equal(json_array_size(json_object_get(details, "tokens")), count);
    json_decref(json);
    free(answer);
    close(running);
    daemon_join(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_request_waits_for_a_slot),
        cmocka_unit_test(test_a_full_queue_refuses),
        cmocka_unit_test(test_whole_prompts_count_in_the_queue),
        cmocka_unit_test(test_a_client_that_leaves_leaves_the_queue),
        cmocka_unit_test(test_a_request_that_waits_too_long_is_504),
        cmocka_unit_test(test_draining_ends_generations),
    };
    return cmocka_run_group_tests_name("generation_queue", tests, NULL, NULL);
}
