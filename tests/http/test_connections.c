/* Connections: reuse after an answer, large numbers of connections, idle clients, and the addresses on which the daemon
 * listens. */
#include "tests/http/daemon.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SPARE = 1000 /* number of descriptors that the process needs for other purposes */ };

static struct answer kept_call(const struct daemon *daemon, CURL *curl, const char *path, const char *body)
{
    return daemon_call(
        daemon,
        &(struct call){.path = path, .body = body, .headers = {"Content-Type: application/json"}, .curl = curl});
}

static void connections_are_kept_after_answers_and_errors(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body;
    } calls[] = {
        {"/health", NULL},
        {"/embed", "{\"inputs\": \"a\"}"},
        {"/embed", "{\"inputs\": 1}"},
        {"/embed", "not JSON"},
        {"/nothing", NULL},
        {"/embed", NULL},
        {"/embed", "{\"inputs\": \"a\"}"},
    };
    struct daemon *daemon = daemon_start(NULL);
    CURL *curl = curl_easy_init();
    for (size_t i = 0; i < LENGTH(calls); i++) {
        struct answer answer = kept_call(daemon, curl, calls[i].path, calls[i].body);

        assert_int_not_equal(answer.status, 0);
        assert_int_equal(answer.connects, i == 0);
        answer_free(&answer);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, NULL);
    }
    curl_easy_cleanup(curl);
    daemon_stop(daemon);
}

/* Returns the number of connections: 10000, or fewer if the limit of descriptors is lower. */
static int silent_connections(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur > 10000 + SPARE ? 10000 : (int)limit.rlim_cur - SPARE;
}

static void silent_connections_delay_no_request(void **state)
{
    (void)state;
    int count = silent_connections(), *descriptors = calloc((size_t)count, sizeof *descriptors);
    struct daemon *daemon = daemon_start(NULL);
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        descriptors[i] = raw_connect(daemon);
        if (i % 2)
            raw_send(descriptors[i], "POST /embed HTTP/1.1\r\nHos");
        if (i % 1000 == 999) {
            struct answer answer = daemon_post(daemon, "/embed", "{\"inputs\": \"a\"}");

            assert_int_equal(answer.status, 200);
            answer_free(&answer);
        }
    }
    for (int i = 0; i < count; i++)
        close(descriptors[i]);
    free(descriptors);
    daemon_stop(daemon);
}

/* libmicrohttpd's own event loop reads a fixed number of events at a time. If exactly this number is ready, it waits
 * for more events before it handles them. The daemon must answer any number of simultaneous requests. */
static void simultaneous_requests_are_all_answered(void **state)
{
    (void)state;
    static const int counts[] = {1, 32, 64, 127, 128, 129, 256, 512};
    struct daemon *daemon = daemon_start(ARGUMENTS("--http-threads", "1"));
    for (size_t i = 0; i < LENGTH(counts); i++) {
        int descriptors[512];

        for (int j = 0; j < counts[i]; j++) {
            descriptors[j] = raw_connect(daemon);
            /* This request adds the connection to the event loop. */
            raw_send(descriptors[j], "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
            free(raw_read_answer(descriptors[j]));
        }
        daemon_freeze(daemon);
        for (int j = 0; j < counts[i]; j++)
            raw_send(descriptors[j], "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
        daemon_thaw(daemon);
        for (int j = 0; j < counts[i]; j++) {
            free(raw_read_answer(descriptors[j]));
            close(descriptors[j]);
        }
    }
    daemon_stop(daemon);
}

static bool is_closed(int descriptor)
{
    struct pollfd polled = {.fd = descriptor, .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

static void over_the_limit_the_longest_idle_connection_is_closed(void **state)
{
    (void)state;
    enum { COUNT = 300 };
    struct daemon *daemon = daemon_start(ARGUMENTS("--max-connections", "100"));
    CURL *curl = curl_easy_init();
    struct answer answer;
    int descriptors[COUNT];
    char byte;
    for (int i = 0; i < COUNT; i++) {
        descriptors[i] = raw_connect(daemon);
        if (i % 20 == 0) { /* requests keep the connection of `curl` from being idle the longest */
            raw_send(descriptors[i], "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
            /* The daemon has accepted all connections so far, in this order. */
            assert_int_equal(recv(descriptors[i], &byte, 1, 0), 1);
            answer = kept_call(daemon, curl, "/embed", "{\"inputs\": \"a\"}");
            assert_int_equal(answer.status, 200);
            assert_int_equal(answer.connects, i == 0);
            answer_free(&answer);
        }
    }
    assert_int_equal(recv(descriptors[1], &byte, 1, 0), 0); /* waits until the daemon has closed this idle connection */
    assert_false(is_closed(descriptors[COUNT - 1]));
    for (int i = 0; i < COUNT; i++)
        close(descriptors[i]);
    curl_easy_cleanup(curl);
    daemon_stop(daemon);
}

static void a_connection_without_a_byte_is_closed(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--connection-timeout-s", "1"));
    int silent = raw_connect(daemon), half = raw_connect(daemon);
    raw_send(half, "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{");
    char *text = raw_read_all(silent);
    assert_string_equal(text, "");
    free(text);
    text = raw_read_all(half);
    free(text);
    close(silent);
    close(half);
    daemon_stop(daemon);
}

static long open_connections(const struct daemon *daemon, CURL *curl)
{
    struct answer answer = kept_call(daemon, curl, "/metrics", NULL);
    const char *line = strstr(answer.body, "\nlinformerd_connections ");
    long count = line ? strtol(strchr(line, ' '), NULL, 10) : -1;
    assert_true(count >= 0);
    answer_free(&answer);
    return count;
}

/* The daemon is frozen while each client sends its last bytes and closes. So the daemon reads the bytes and the close
 * together. The bytes are a part of a request that is never completed. */
static void clients_that_leave_during_a_request_are_noticed(void **state)
{
    (void)state;
    enum { COUNT = 1000, LOOKS = 20000 };
    struct daemon *daemon = daemon_start(NULL);
    CURL *curl = curl_easy_init();
    int descriptors[COUNT], looks = 0;
    for (int i = 0; i < COUNT; i++) {
        descriptors[i] = raw_connect(daemon);
        raw_send(descriptors[i], "GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
        free(raw_read_answer(descriptors[i]));
    }
    assert_true(open_connections(daemon, curl) > COUNT);
    daemon_freeze(daemon);
    for (int i = 0; i < COUNT; i++) {
        raw_send(descriptors[i], i % 2 ? "GET /health HTTP/1.1\r\nHo"
                                       : "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{ ");
        close(descriptors[i]);
    }
    daemon_thaw(daemon);
    while (open_connections(daemon, curl) > 1 && ++looks < LOOKS)
        usleep(2000);
    assert_true(looks < LOOKS);
    curl_easy_cleanup(curl);
    daemon_stop(daemon);
}

/* Clients close their sending half, as `nc -N` does. The end of the stream arrives together with the request, or after
 * it. */
static void a_client_that_closes_its_sending_half_is_answered(void **state)
{
    (void)state;
    static const char *const requests[] = {
        "GET /health HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 15\r\n\r\n{\"inputs\": \"a\"}",
        "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n",
    };
    static const char *const statuses[] = {"HTTP/1.1 200", "HTTP/1.1 200", "HTTP/1.1 404"};
    struct daemon *daemon = daemon_start(NULL);
    for (int i = 0; i < 60; i++) {
        int descriptor = raw_connect(daemon);
        bool together = i % 2 == 0;

        if (together)
            daemon_freeze(daemon);
        raw_send(descriptor, requests[i % 3]);
        shutdown(descriptor, SHUT_WR);
        if (together)
            daemon_thaw(daemon);
        char *answer = raw_read_all(descriptor);
        if (strncmp(answer, statuses[i % 3], strlen(statuses[i % 3])) != 0)
            fail_msg("%s was answered with %s", requests[i % 3], answer);
        free(answer);
        close(descriptor);
    }
    daemon_stop(daemon);
}

struct clients {
    struct daemon *daemon;
    _Atomic int right;
};

static void *client(void *argument)
{
    struct clients *clients = argument;
    CURL *curl = curl_easy_init();
    for (int i = 0; i < 5; i++) {
        struct answer answer = kept_call(clients->daemon, curl, "/embed", "{\"inputs\": [\"one\", \"two\"]}");

        if (answer.status == 200 && json_array_size(answer.json) == 2)
            atomic_fetch_add(&clients->right, 1);
        answer_free(&answer);
    }
    curl_easy_cleanup(curl);
    return NULL;
}

static void many_clients_at_once_are_all_answered(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    struct clients clients = {.daemon = daemon_start(NULL)};
    pthread_t threads[COUNT];
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, client, &clients), 0);
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&clients.right), 5 * COUNT);
    daemon_stop(clients.daemon);
}

static bool has_address(const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *list;
    bool found = false;
    if (getaddrinfo(host, NULL, &hints, &list) != 0)
        return false;
    int descriptor = socket(list->ai_family, SOCK_STREAM, 0);
    found = descriptor >= 0 && bind(descriptor, list->ai_addr, list->ai_addrlen) == 0;
    if (descriptor >= 0)
        close(descriptor);
    freeaddrinfo(list);
    return found;
}

static void expect_health(const struct daemon *daemon, const char *host)
{
    struct answer answer = daemon_call(daemon, &(struct call){.path = "/health", .host = host});
    assert_int_equal(answer.status, 200);
    answer_free(&answer);
}

static void host_accepts_names_and_addresses_of_ipv4_and_ipv6(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--host", "0.0.0.0"));
    expect_health(daemon, "127.0.0.1");
    daemon_stop(daemon);
    if (has_address("localhost")) {
        daemon = daemon_start(ARGUMENTS("--host", "localhost"));
        expect_health(daemon, "localhost");
        daemon_stop(daemon);
    }
    if (has_address("::1")) {
        daemon = daemon_start(ARGUMENTS("--host", "::1"));
        expect_health(daemon, "[::1]");
        daemon_stop(daemon);
        daemon = daemon_start(ARGUMENTS("--host", "::"));
        expect_health(daemon, "[::1]");
        expect_health(daemon, "127.0.0.1");
        daemon_stop(daemon);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_are_kept_after_answers_and_errors),
        cmocka_unit_test(silent_connections_delay_no_request),
        cmocka_unit_test(simultaneous_requests_are_all_answered),
        cmocka_unit_test(over_the_limit_the_longest_idle_connection_is_closed),
        cmocka_unit_test(a_connection_without_a_byte_is_closed),
        cmocka_unit_test(clients_that_leave_during_a_request_are_noticed),
        cmocka_unit_test(a_client_that_closes_its_sending_half_is_answered),
        cmocka_unit_test(many_clients_at_once_are_all_answered),
        cmocka_unit_test(host_accepts_names_and_addresses_of_ipv4_and_ipv6),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
