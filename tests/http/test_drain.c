/* SIGTERM: the daemon answers all accepted requests and exits with status 0. It drops a client that does not read its
 * answer. */
#include "tests/http/daemon.h"

#include <curl/curl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS = 16 };

struct load {
    struct daemon *daemon;
    _Atomic int answered, refused, lost;
};

static const char head[] = "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";

/* Sends requests over one connection until the daemon accepts no more connections. */
static void *client(void *argument)
{
    struct load *load = argument;
    CURL *curl = curl_easy_init();
    for (;;) {
        struct answer answer =
            daemon_call(load->daemon, &(struct call){.path = "/embed",
                                                     .body = "{\"inputs\": [\"a text\", \"and one more\"]}",
                                                     .headers = {"Content-Type: application/json"},
                                                     .curl = curl});
        bool over = answer.error == CURLE_COULDNT_CONNECT;

        if (answer.status == 200 && json_array_size(answer.json) == 2)
            atomic_fetch_add(&load->answered, 1);
        else if (answer.status == 503)
            atomic_fetch_add(&load->refused, 1);
        else if (!over) {
            atomic_fetch_add(&load->lost, 1);
            fprintf(stderr, "lost: status %ld, curl %d %s\n", answer.status, answer.error,
                    curl_easy_strerror((CURLcode)answer.error));
        }
        answer_free(&answer);
        if (over)
            break;
    }
    curl_easy_cleanup(curl);
    return NULL;
}

static void under_load_no_request_is_lost(void **state)
{
    (void)state;
    struct load load = {.daemon = daemon_start(NULL)};
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client, &load), 0);
    while (atomic_load(&load.answered) < 20 * CLIENTS)
        usleep(1000);
    daemon_terminate(load.daemon);
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    daemon_join(load.daemon);
    assert_int_equal(atomic_load(&load.lost), 0);
}

static void idle_connections_do_not_keep_the_daemon_running(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(NULL);
    int silent = raw_connect(daemon), half = raw_connect(daemon), kept = raw_connect(daemon);
    raw_send(half, "GET /health HT");
    raw_send(kept, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    char *answer = raw_read_answer(kept);
    assert_int_equal(strncmp(answer, "HTTP/1.1 200", 12), 0);
    free(answer);
    daemon_stop(daemon);
    close(silent);
    close(half);
    close(kept);
}

/* The headers of this request arrive before the signal, and the body arrives after it. The daemon accepts a request
 * when its headers have arrived. */
static void the_daemon_waits_for_a_body_that_is_being_sent(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(NULL);
    int slow = raw_connect(daemon);
    raw_send(slow, head);
    raw_send(slow, "Content-Length: 18\r\nExpect: 100-continue\r\n\r\n");
    char *answer = raw_read_answer(slow);
    assert_int_equal(strncmp(answer, "HTTP/1.1 100", 12), 0);
    free(answer);
    daemon_terminate(daemon);
    for (;;) { /* repeats until the daemon has received the signal */
        struct answer ready = daemon_get(daemon, "/health/ready");
        long status = ready.status;

        answer_free(&ready);
        if (status == 503)
            break;
    }
    raw_send(slow, "{\"inputs\": \"late\"}");
    answer = raw_read_all(slow);
    assert_int_equal(strncmp(answer, "HTTP/1.1 200", 12), 0);
    assert_non_null(strstr(answer, "Connection: close"));
    free(answer);
    close(slow);
    daemon_join(daemon);
}

/* A supervisor may send the signal several times, to the process and to its group. */
static void a_repeated_signal_loses_nothing(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(NULL);
    int slow = raw_connect(daemon);
    raw_send(slow, head);
    raw_send(slow, "Content-Length: 18\r\nExpect: 100-continue\r\n\r\n");
    free(raw_read_answer(slow));
    for (int i = 0; i < 4; i++) {
        daemon_terminate(daemon);
        usleep(60000);
    }
    raw_send(slow, "{\"inputs\": \"late\"}");
    char *answer = raw_read_all(slow);
    assert_int_equal(strncmp(answer, "HTTP/1.1 200", 12), 0);
    free(answer);
    close(slow);
    daemon_join(daemon);
}

/* One request whose body is missing keeps the daemon draining while other clients connect. */
static void readiness_is_503_while_the_daemon_drains(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(NULL);
    int slow = raw_connect(daemon);
    struct answer answer;
    raw_send(slow, head);
    raw_send(slow, "Content-Length: 18\r\nExpect: 100-continue\r\n\r\n");
    char *text = raw_read_answer(slow);
    free(text);
    daemon_terminate(daemon);
    do {
        answer = daemon_get(daemon, "/health/ready");
        text = answer_header(&answer, "Connection");
        if (answer.status == 200) {
            free(text);
            answer_free(&answer);
        }
    } while (answer.status == 0);
    assert_non_null(text);
    free(text);
    expect_failure_answer(&answer, 503, "Unhealthy", "not ready");
    answer = daemon_post(daemon, "/embed", "{\"inputs\": \"new\"}");
    expect_header(&answer, "Retry-After", "1");
    expect_failure_answer(&answer, 503, "Unhealthy", "stop");
    answer = daemon_get(daemon, "/health/live");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    raw_send(slow, "{\"inputs\": \"late\"}");
    text = raw_read_all(slow);
    assert_int_equal(strncmp(text, "HTTP/1.1 200", 12), 0);
    free(text);
    close(slow);
    daemon_join(daemon);
}

/* The drain delay is one hour. SIGINT ends it. */
static void requests_are_served_during_the_delay(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--drain-delay-ms", "3600000"));
    struct answer answer;
    daemon_terminate(daemon);
    for (;;) { /* repeats until the daemon has received the signal */
        answer = daemon_get(daemon, "/health/ready");
        if (answer.status == 503)
            break;
        answer_free(&answer);
    }
    expect_header(&answer, "Retry-After", "1");
    expect_header(&answer, "Connection", "close");
    answer_free(&answer);
    for (int i = 0; i < 3; i++) {
        answer = daemon_post(daemon, "/embed", "{\"inputs\": \"new\"}");
        assert_int_equal(answer.status, 200);
        expect_header(&answer, "Connection", "close");
        answer_free(&answer);
        answer = daemon_get(daemon, "/health/ready");
        assert_int_equal(answer.status, 503);
        answer_free(&answer);
        daemon_terminate(daemon); /* another SIGTERM changes nothing */
    }
    answer = daemon_get(daemon, "/health/live");
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
    daemon_signal(daemon, SIGINT);
    daemon_join(daemon);
}

static void sigint_skips_the_delay(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--drain-delay-ms", "3600000"));
    daemon_signal(daemon, SIGINT);
    daemon_join(daemon);
}

/* Opens a connection for each request until the daemon accepts no more connections. If a request comes more than a
 * second after its connection, the daemon may refuse it. */
static void *client_that_connects(void *argument)
{
    struct load *load = argument;
    for (;;) {
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        struct answer answer = daemon_post(load->daemon, "/embed", "{\"inputs\": \"a text\"}");
        clock_gettime(CLOCK_MONOTONIC, &end);
        bool over = answer.error == CURLE_COULDNT_CONNECT;
        bool slow = (end.tv_sec - begin.tv_sec) * 1000 + (end.tv_nsec - begin.tv_nsec) / 1000000 >= 900;
        if (answer.status == 200)
            atomic_fetch_add(&load->answered, 1);
        else if (answer.status == 503 && !slow)
            atomic_fetch_add(&load->refused, 1);
        else if (!over && !slow) {
            atomic_fetch_add(&load->lost, 1);
            fprintf(stderr, "lost: status %ld, curl %d\n", answer.status, answer.error);
        }
        answer_free(&answer);
        if (over)
            return NULL;
    }
}

static void a_delay_refuses_no_connection(void **state)
{
    (void)state;
    struct load load = {.daemon = daemon_start(ARGUMENTS("--drain-delay-ms", "3600000"))};
    pthread_t threads[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client_that_connects, &load), 0);
    daemon_terminate(load.daemon);
    while (atomic_load(&load.answered) < 20 * CLIENTS)
        usleep(1000);
    daemon_signal(load.daemon, SIGINT); /* ends the drain delay */
    for (int i = 0; i < CLIENTS; i++)
        pthread_join(threads[i], NULL);
    daemon_join(load.daemon);
    assert_int_equal(atomic_load(&load.lost), 0);
    assert_int_equal(atomic_load(&load.refused), 0);
}

/* The answer has tens of megabytes, more than a socket buffers. The client reads a little, and then stops reading. */
static void a_client_that_does_not_read_is_dropped(void **state)
{
    (void)state;
    enum { TOKENS = 1024, COUNT = 24 };
    struct daemon *daemon = daemon_start(NULL);
    char *body = malloc(COUNT * (TOKENS + 3) + 64), *at = body, length[64];
    int reader = raw_connect(daemon);
    at += sprintf(at, "{\"inputs\": [");
    for (int i = 0; i < COUNT; i++) {
        at += sprintf(at, i > 0 ? ",\"" : "\"");
        memset(at, 'x', TOKENS);
        at += TOKENS;
        *at++ = '"';
    }
    strcpy(at, "]}");
    snprintf(length, sizeof length, "Content-Length: %zu\r\n\r\n", strlen(body));
    raw_send(reader, "POST /embed_all HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n");
    raw_send(reader, length);
    raw_send(reader, body);
    assert_int_equal(recv(reader, length, sizeof length, MSG_WAITALL), sizeof length);
    assert_int_equal(strncmp(length, "HTTP/1.1 200", 12), 0);
    daemon_terminate(daemon);
    daemon_join(daemon);
    close(reader);
    free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_load_no_request_is_lost),
        cmocka_unit_test(idle_connections_do_not_keep_the_daemon_running),
        cmocka_unit_test(the_daemon_waits_for_a_body_that_is_being_sent),
        cmocka_unit_test(readiness_is_503_while_the_daemon_drains),
        cmocka_unit_test(requests_are_served_during_the_delay),
        cmocka_unit_test(sigint_skips_the_delay),
        cmocka_unit_test(a_delay_refuses_no_connection),
        cmocka_unit_test(a_repeated_signal_loses_nothing),
        cmocka_unit_test(a_client_that_does_not_read_is_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
