/* /generate_stream: its events are the pieces of the answer of /generate. Slots become free again, whatever clients do.
 * A slot is the permission to generate one sequence. The ids are those that linear-attention-transformer generates
 * (tests/generation/greedy.json). */
#include "tests/http/daemon.h"
#include "tests/http/generation.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS 6
#define ROUNDS 100
#define ATTEMPTS 20000 /* maximum number of requests sent while the test waits for a free slot */

static char *folder;
static struct daemon *the_daemon;

static int start(void **state)
{
    (void)state;
    the_daemon = generation_daemon_start(&folder);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    generation_daemon_stop(the_daemon, folder);
    return 0;
}

/* ---- Events ---- */

/* Returns the events of a streamed answer as a list. Each event must be "data:JSON" and an empty line. */
static json_t *events_of(const struct answer *answer)
{
    json_t *events = json_array();
    char *type = answer_header(answer, "Content-Type");
    if (answer->status != 200 || !type || strcmp(type, "text/event-stream") != 0)
        fail_msg("%ld %s", answer->status, answer->body);
    free(type);
    for (const char *at = answer->body; *at;) {
        const char *end = strstr(at, "\n\n");
        if (!end || strncmp(at, "data:", 5) != 0)
            fail_msg("no event: %s", at);
        json_t *event = json_loadb(at + 5, (size_t)(end - at - 5), JSON_ALLOW_NUL, NULL);
        if (!event)
            fail_msg("not JSON: %s", at);
        json_array_append_new(events, event);
        at = end + 2;
    }
    return events;
}

static struct answer stream(const char *body)
{
    return daemon_post(the_daemon, "/generate_stream", body);
}

/* The events must agree with the answer of /generate to the same request with `details`. */
static void expect_same(const json_t *events, const json_t *whole)
{
    const json_t *details = json_object_get(whole, "details"), *event;
    const json_t *tokens = json_object_get(details, "tokens"), *top = json_object_get(details, "top_tokens");
    size_t i, count = json_array_size(tokens);
    assert_int_equal(json_array_size(events), count);
    json_array_foreach (events, i, event) {
        assert_int_equal(json_integer_value(json_object_get(event, "index")), i + 1);
        assert_true(json_equal(json_object_get(event, "token"), json_array_get(tokens, i)));
        assert_true(!top || json_equal(json_object_get(event, "top_tokens"), json_array_get(top, i)));
        assert_int_equal(json_is_null(json_object_get(event, "generated_text")), i + 1 < count);
        assert_int_equal(json_is_null(json_object_get(event, "details")), i + 1 < count);
    }
    const json_t *last = json_array_get(events, count - 1), *end = json_object_get(last, "details");
    static const char *const same[] = {"finish_reason", "generated_tokens", "seed"};
    assert_true(json_equal(json_object_get(last, "generated_text"), json_object_get(whole, "generated_text")));
    for (i = 0; i < LENGTH(same); i++)
        assert_true(json_equal(json_object_get(end, same[i]), json_object_get(details, same[i])));
}

static void test_greedy_ids_are_the_library_s(void **state)
{
    (void)state;
    json_t *runs = generation_greedy_runs(), *run;
    size_t i, j;
    json_array_foreach (runs, i, run) {
        const json_t *ids = json_object_get(run, "ids");
        char parameters[64];
        snprintf(parameters, sizeof parameters, "\"max_new_tokens\":%zu", json_array_size(ids));
        char *body = generation_body(json_string_value(json_object_get(run, "model")), json_object_get(run, "prompt"),
                                     parameters);
        struct answer answer = stream(body);
        json_t *events = events_of(&answer), *event;
        assert_int_equal(json_array_size(events), json_array_size(ids));
        json_array_foreach (events, j, event)
            assert_int_equal(json_integer_value(json_object_get(json_object_get(event, "token"), "id")),
                             json_integer_value(json_array_get(ids, j)));
        const json_t *end = json_object_get(json_array_get(events, j - 1), "details");
        assert_int_equal(json_integer_value(json_object_get(end, "input_length")),
                         json_array_size(json_object_get(run, "prompt")));
        json_decref(events);
        answer_free(&answer);
        free(body);
    }
    json_decref(runs);
}

/* The joined texts of the tokens must equal `text` without its first `skip` bytes. If a special token ends the sequence
 * in the middle of a character, the bytes of this character belong to no token. */
static void expect_joined(const json_t *events, const json_t *text, size_t skip)
{
    const char *at = json_string_value(text) + skip, *end = json_string_value(text) + json_string_length(text);
    const json_t *event, *token = NULL;
    size_t i;
    json_array_foreach (events, i, event) {
        token = json_object_get(event, "token");
        const json_t *piece = json_object_get(token, "text");
        if (json_is_true(json_object_get(token, "special")))
            continue;
        assert_true(json_string_length(piece) <= (size_t)(end - at));
        assert_memory_equal(at, json_string_value(piece), json_string_length(piece));
        at += json_string_length(piece);
    }
    for (; json_is_true(json_object_get(token, "special")) && at < end; at += 3)
        assert_memory_equal(at, "\xef\xbf\xbd", 3);
    assert_ptr_equal(at, end);
}

/* There are many seeds, so that some characters of several bytes consist of several tokens. */
static void test_events_are_the_answer_in_pieces(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"model\":\"texts\",\"inputs\":\"caf\xc3\xa9 \",\"parameters\":{\"max_new_tokens\":120,\"temperature\":3,"
        "\"seed\":%d,\"details\":true}}",
        "{\"model\":\"texts\",\"inputs\":\"abc\",\"parameters\":{\"max_new_tokens\":60,\"temperature\":2,\"seed\":%d,"
        "\"details\":true,\"return_full_text\":true,\"top_n_tokens\":3,\"stop\":[\"e\",\"th\",\"\xc3\xa9\"]}}",
        "{\"model\":\"linformer_pytorch_lm_causal\",\"inputs\":[3,1,4],\"parameters\":{\"max_new_tokens\":9,\"seed\":%"
        "d,"
        "\"temperature\":1.5}}",
        "{\"model\":\"linear_attention_encoder_decoder\",\"inputs\":[5,6,7],\"parameters\":{\"max_new_tokens\":9,"
        "\"seed\":%d,\"top_k\":20}}",
    };
    for (size_t i = 0; i < LENGTH(bodies); i++) {
        for (int seed = 0; seed < 10; seed++) {
            char body[512];
            snprintf(body, sizeof body, bodies[i], seed);
            struct answer whole = daemon_post(the_daemon, "/generate", body), pieces = stream(body);
            json_t *events = events_of(&pieces);
            assert_int_equal(whole.status, 200);
            expect_same(events, whole.json);
            expect_joined(events, json_object_get(whole.json, "generated_text"), i == 1 ? strlen("abc") : 0);
            json_decref(events);
            answer_free(&whole);
            answer_free(&pieces);
        }
    }
}

/* A client of HTTP 1.0 receives the same bytes without chunks. The end of the connection ends the answer. */
static void test_an_http_1_0_client_receives_the_same_events(void **state)
{
    (void)state;
    const char *body = "{\"inputs\":[5,6,7,8],\"parameters\":{\"max_new_tokens\":30}}";
    struct answer answer = stream(body);
    int descriptor = raw_connect(the_daemon);
    char head[256];
    snprintf(head, sizeof head,
             "POST /generate_stream HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
             strlen(body));
    raw_send(descriptor, head);
    raw_send(descriptor, body);
    char *all = raw_read_all(descriptor), *found = strstr(all, "\r\n\r\n");
    assert_non_null(found);
    assert_string_equal(found + 4, answer.body);
    free(all);
    close(descriptor);
    answer_free(&answer);
}

static void test_the_connection_is_kept_after_a_stream(void **state)
{
    (void)state;
    CURL *curl = curl_easy_init();
    for (int i = 0; i < 3; i++) {
        struct answer answer =
            daemon_call(the_daemon, &(struct call){.path = "/generate_stream",
                                                   .body = "{\"inputs\":[5],\"parameters\":{\"max_new_tokens\":5}}",
                                                   .headers = {"Content-Type: application/json"},
                                                   .curl = curl});
        json_t *events = events_of(&answer);
        assert_int_equal(json_array_size(events), 5);
        assert_int_equal(answer.connects, i == 0);
        json_decref(events);
        answer_free(&answer);
    }
    curl_easy_cleanup(curl);
}

/* ---- POST / ---- */

static void test_the_root_answers_at_once_or_as_a_stream(void **state)
{
    (void)state;
    const char *plain = "{\"inputs\":[5,6],\"parameters\":{\"max_new_tokens\":7}}";
    struct answer whole = daemon_post(the_daemon, "/generate", plain), listed = daemon_post(the_daemon, "/", plain);
    struct answer asked =
        daemon_post(the_daemon, "/", "{\"inputs\":[5,6],\"stream\":false,\"parameters\":{\"max_new_tokens\":7}}");
    struct answer pieces =
        daemon_post(the_daemon, "/", "{\"inputs\":[5,6],\"stream\":true,\"parameters\":{\"max_new_tokens\":7}}");
    struct answer vectors = daemon_post(the_daemon, "/", "{\"inputs\":[5,6]}");
    assert_int_equal(json_array_size(listed.json), 1);
    assert_true(json_equal(json_array_get(listed.json, 0), whole.json));
    assert_true(json_equal(asked.json, listed.json));
    json_t *events = events_of(&pieces);
    expect_same(events, whole.json);
    assert_true(json_is_real(json_array_get(json_array_get(vectors.json, 0), 0)));
    expect_failure(the_daemon, "/", "{\"model\":\"linformer_lm\",\"inputs\":[5,6],\"stream\":true}", 422, "Validation",
                   "is not causal");
    json_decref(events);
    answer_free(&whole);
    answer_free(&listed);
    answer_free(&asked);
    answer_free(&pieces);
    answer_free(&vectors);
}

/* ---- Failures ---- */

/* If a request fails before the first event, the answer has the ordinary form of a failure. */
static void test_a_refused_stream_is_an_ordinary_answer(void **state)
{
    (void)state;
    static const struct {
        long status;
        const char *body, *message;
    } cases[] = {
        {422, "{\"model\":\"linformer_lm\",\"inputs\":[1]}", "linformer.LinformerLM is not causal"},
        {422, "{\"model\":\"texts\"}", "inputs is missing"},
        {422, "{\"model\":\"texts\",\"inputs\":[1],\"parameters\":{\"top_p\":1.5}}", "parameters.top_p is 1.5"},
        {422, "{\"model\":\"texts\",\"inputs\":\"a\",\"prompt_name\":\"query\"}", "has no prompts"},
        {404, "{\"model\":\"nobody\",\"inputs\":[1]}", "nobody"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        expect_failure(the_daemon, "/generate_stream", cases[i].body, cases[i].status, "Validation", cases[i].message);
}

/* Returns the value of linformerd_requests_total for the route and the status. */
static long requests_counted(const char *route, int status)
{
    char wanted[256];
    struct answer answer = daemon_get(the_daemon, "/metrics");
    snprintf(wanted, sizeof wanted, "linformerd_requests_total{route=\"%s\",model=\"failing\",status=\"%d\"} ", route,
             status);
    const char *found = strstr(answer.body, wanted);
    long count = found ? atol(found + strlen(wanted)) : 0;
    answer_free(&answer);
    return count;
}

/* If a request fails after the first event, the last event contains the failure. The request counts as failed. */
static void test_a_late_failure_is_the_last_event(void **state)
{
    (void)state;
    enum { STREAMS = 5 };
    for (int seed = 0; seed < STREAMS; seed++) {
        char body[256];
        snprintf(body, sizeof body,
                 "{\"model\":\"failing\",\"inputs\":\"abc\",\"parameters\":{\"max_new_tokens\":200,"
                 "\"do_sample\":true,\"seed\":%d}}",
                 seed);
        struct answer answer = stream(body);
        json_t *events = events_of(&answer);
        size_t count = json_array_size(events);
        assert_in_range(count, 2, 199);
        for (size_t i = 0; i + 1 < count; i++)
            assert_true(json_is_null(json_object_get(json_array_get(events, i), "generated_text")));
        const json_t *last = json_array_get(events, count - 1);
        assert_non_null(strstr(json_string_value(json_object_get(last, "error")), "NaN"));
        assert_string_equal(json_string_value(json_object_get(last, "error_type")), "Backend");
        assert_int_equal(json_object_size(last), 2);
        json_decref(events);
        answer_free(&answer);
    }
    for (int i = 0; i < ATTEMPTS && requests_counted("/generate_stream", 500) < STREAMS; i++)
        usleep(1000); /* a request is counted a moment after its answer */
    assert_int_equal(requests_counted("/generate_stream", 500), STREAMS);
    assert_int_equal(requests_counted("/generate_stream", 200), 0);
}

/* ---- Clients that leave ---- */

/* Sends a request on a new connection. */
static int send_request(const struct daemon *daemon, const char *path, const char *body)
{
    char head[256];
    int descriptor = raw_connect(daemon);
    snprintf(head, sizeof head,
             "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", path,
             strlen(body));
    raw_send(descriptor, head);
    raw_send(descriptor, body);
    return descriptor;
}

/* Reads at least `bytes` bytes of an answer. */
static void read_some(int descriptor, size_t bytes)
{
    char part[512];
    for (size_t count = 0; count < bytes;) {
        ssize_t length = recv(descriptor, part, sizeof part, 0);
        assert_true(length > 0);
        count += (size_t)length;
    }
}

static long try_short(const struct daemon *daemon)
{
    struct answer answer = daemon_post(daemon, "/generate", "{\"inputs\":[1],\"parameters\":{\"max_new_tokens\":1}}");
    long status = answer.status;
    answer_free(&answer);
    return status;
}

#define LONG_BODY "{\"inputs\":[1,2,3],\"parameters\":{\"max_new_tokens\":1000000}}"

/* There is only one slot. It becomes free each time a client breaks off its stream. Otherwise the next stream could not
 * begin. */
static void test_slots_come_back_from_broken_streams(void **state)
{
    (void)state;
    struct daemon *daemon =
        daemon_start(ARGUMENTS("--max-generations", "1", "--model", "tests/reference/linear_attention_lm_causal"));
    for (int round = 0; round < ROUNDS; round++) {
        int descriptor = -1;
        char head[13] = "";
        for (int i = 0; i < ATTEMPTS && strcmp(head, "HTTP/1.1 200") != 0; i++) {
            if (descriptor >= 0)
                close(descriptor);
            descriptor = send_request(daemon, "/generate_stream", LONG_BODY);
            assert_int_equal(recv(descriptor, head, 12, MSG_WAITALL), 12);
        }
        assert_string_equal(head, "HTTP/1.1 200");
        read_some(descriptor, 1 + (size_t)(round * 37) % 3000);
        if (round % 3 == 0)
            shutdown(descriptor, SHUT_RDWR);
        if (round % 3 == 1) { /* closing the connection sends a reset */
            struct linger linger = {.l_onoff = 1};
            setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
        }
        close(descriptor);
    }
    daemon_stop(daemon);
}

struct client {
    pthread_t thread;
    int number;
    json_t *events, *expected;
};

/* Requests the client's own stream 20 times, and expects the same events each time. After each of these streams, begins
 * another stream and breaks it off. */
static void *stream_and_leave(void *argument)
{
    struct client *client = argument;
    char body[256];
    snprintf(body, sizeof body,
             "{\"model\":\"texts\",\"inputs\":\"client %d\",\"parameters\":{\"max_new_tokens\":40,\"temperature\":1.2,"
             "\"seed\":%d,\"details\":true}}",
             client->number, client->number);
    for (int i = 0; i < 20; i++) {
        struct answer answer = stream(body);
        json_t *events = events_of(&answer);
        if (!client->events)
            client->events = json_incref(events);
        if (!json_equal(events, client->events)) {
            print_error("client %d, stream %d differs\n", client->number, i);
            json_decref(client->events);
            client->events = json_null();
        }
        json_decref(events);
        answer_free(&answer);
        int descriptor = send_request(the_daemon, "/generate_stream", LONG_BODY);
        read_some(descriptor, 300 + 200 * (size_t)i);
        close(descriptor);
    }
    return NULL;
}

static void test_others_do_not_notice_clients_that_leave(void **state)
{
    (void)state;
    struct client clients[CLIENTS] = {0};
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].number = i;
        assert_int_equal(pthread_create(&clients[i].thread, NULL, stream_and_leave, &clients[i]), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        pthread_join(clients[i].thread, NULL);
        char body[256];
        snprintf(body, sizeof body,
                 "{\"model\":\"texts\",\"inputs\":\"client %d\",\"parameters\":{\"max_new_tokens\":40,"
                 "\"temperature\":1.2,\"seed\":%d,\"details\":true}}",
                 i, i);
        struct answer whole = daemon_post(the_daemon, "/generate", body);
        expect_same(clients[i].events, whole.json);
        json_decref(clients[i].events);
        answer_free(&whole);
    }
}

/* A client that reads nothing loses its slot when its socket is full and a backlog has grown. Large events make the
 * test quick. */
static void test_a_client_that_does_not_read_is_cut_off(void **state)
{
    (void)state;
    struct daemon *daemon =
        daemon_start(ARGUMENTS("--max-generations", "1", "--model", "tests/reference/linear_attention_lm_causal"));
    int descriptor = send_request(daemon, "/generate_stream",
                                  "{\"inputs\":[1,2,3],\"parameters\":{\"max_new_tokens\":30000,\"top_n_tokens\":60}}");
    read_some(descriptor, 1); /* the request occupies the slot */
    long status = 0;
    for (int i = 0; i < ATTEMPTS && status != 200; i++) {
        status = try_short(daemon);
        usleep(1000);
    }
    assert_int_equal(status, 200);
    char part[65536], last[8] = "";
    ssize_t length;
    while ((length = recv(descriptor, part, sizeof part, 0)) > 0) {
        size_t kept = length < 5 ? (size_t)length : 5;
        memcpy(last, part + length - kept, kept);
    }
    assert_string_not_equal(last, "0\r\n\r\n"); /* a complete answer would end in these bytes */
    close(descriptor);
    daemon_stop(daemon);
}

/* Finds the line of the request in the log. Returns the number of tokens in this line. */
static json_int_t logged_tokens(struct daemon *daemon, const char *path, json_int_t *status)
{
    char line[2048], key[64];
    snprintf(key, sizeof key, "\"path\": \"%s\"", path);
    while (daemon_log_line(daemon, line, sizeof line)) {
        if (!strstr(line, key))
            continue;
        json_t *object = json_loads(line, 0, NULL);
        json_int_t tokens = json_integer_value(json_object_get(object, "tokens"));
        *status = json_integer_value(json_object_get(object, "status"));
        json_decref(object);
        return tokens;
    }
    fail_msg("no line with %s", key);
    return 0;
}

/* If the request had been completed, the log would show the status 200. */
static void test_a_client_that_leaves_ends_its_generation(void **state)
{
    (void)state;
    static const char *const paths[] = {"/generate_stream", "/generate"};
    for (size_t i = 0; i < LENGTH(paths); i++) {
        char line[1024];
        struct daemon *daemon = daemon_try(
            &(struct daemon_options){.arguments = ARGUMENTS("--log-level", "debug", "--log-format", "json", "--model",
                                                            "tests/reference/linear_attention_lm_causal"),
                                     .log_unread = true},
            line);
        int leaving = send_request(daemon, paths[i], LONG_BODY);
        if (i == 0)
            read_some(leaving, 20000);
        /* A client that closes within 0.1 s of its request may have closed only its sending half (HALF_CLOSE_SOON_NS in
         * exchange.c). This client closes later, so it has left. */
        usleep(300000);
        close(leaving);
        json_int_t status = 0, tokens = logged_tokens(daemon, paths[i], &status);
        assert_int_equal(status, 499);
        assert_true(tokens >= 3);
        daemon_stop(daemon);
    }
}

/* A client may close its sending half, and still read its stream. */
static void test_a_half_closed_client_gets_its_stream(void **state)
{
    (void)state;
    const char *body = "{\"model\":\"texts\",\"inputs\":\"abc\",\"parameters\":{\"max_new_tokens\":100}}";
    int descriptor = send_request(the_daemon, "/generate_stream", body);
    shutdown(descriptor, SHUT_WR);
    char *all = raw_read_all(descriptor);
    assert_non_null(strstr(all, "\"index\":100,"));
    assert_non_null(strstr(all, "\r\n0\r\n\r\n"));
    free(all);
    close(descriptor);
}

/* Streams that were accepted are completed before the daemon stops. */
static void test_draining_completes_streams(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "tests/reference/linear_attention_lm_causal"));
    int descriptor =
        send_request(daemon, "/generate_stream", "{\"inputs\":[1,2,3],\"parameters\":{\"max_new_tokens\":3000}}");
    read_some(descriptor, 1);
    daemon_terminate(daemon);
    char *all = raw_read_all(descriptor);
    assert_non_null(strstr(all, "\"index\":3000,"));
    assert_non_null(strstr(all, "\r\n0\r\n\r\n"));
    free(all);
    close(descriptor);
    daemon_join(daemon);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_greedy_ids_are_the_library_s),
        cmocka_unit_test(test_events_are_the_answer_in_pieces),
        cmocka_unit_test(test_an_http_1_0_client_receives_the_same_events),
        cmocka_unit_test(test_the_connection_is_kept_after_a_stream),
        cmocka_unit_test(test_the_root_answers_at_once_or_as_a_stream),
        cmocka_unit_test(test_a_refused_stream_is_an_ordinary_answer),
        cmocka_unit_test(test_a_late_failure_is_the_last_event),
        cmocka_unit_test(test_slots_come_back_from_broken_streams),
        cmocka_unit_test(test_others_do_not_notice_clients_that_leave),
        cmocka_unit_test(test_a_client_that_does_not_read_is_cut_off),
        cmocka_unit_test(test_a_client_that_leaves_ends_its_generation),
        cmocka_unit_test(test_a_half_closed_client_gets_its_stream),
        cmocka_unit_test(test_draining_completes_streams),
    };
    return cmocka_run_group_tests_name("streamed generation", tests, start, stop);
}
