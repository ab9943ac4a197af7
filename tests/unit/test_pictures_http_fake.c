/* Tests whether an event loop or a worker reads a body, and which media types a route accepts. The tests use the real
 * HTTP server, with the routes below. Workers read large bodies, and all requests of heavy routes. If a model reads
 * pictures, a worker also reads each small body that may contain a picture. If a model has a tokenizer.json, bodies
 * count as large from a lower size on. */
#define _GNU_SOURCE /* gettid */
#include "server/common/metrics.h"
#include "server/http/http.h"
#include "server/http/routes.h"
#include "tests/fake_engine.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#define LARGE (65 * 1024) /* size of a body that no event loop reads */
#define TEXT (8 * 1024)   /* maximum size of a body that an event loop reads if a model has a tokenizer.json */

/* Reads the body of a request, and answers with the number of the thread that does so. */
static enum outcome tell_thread(struct request *request)
{
    writer_format(&request->answer, "{\"thread\":%d}", (int)gettid());
    return OUTCOME_ANSWERED;
}

static const struct route routes[] = {
    {"POST", "/picture", ACCEPTS_PICTURE, .work = WORK_OTHER, .read = tell_thread},
    {"POST", "/json", ACCEPTS_JSON, .work = WORK_OTHER, .read = tell_thread},
    {"POST", "/any", ACCEPTS_BINARY, .work = WORK_OTHER, .read = tell_thread},
    {"POST", "/light", ACCEPTS_JSON, .read = tell_thread},
    {"GET", "/loop", .read = tell_thread},
    {"POST", "/heavy", ACCEPTS_BINARY, .heavy = true, .read = tell_thread},
};

static void write_failure(struct writer *writer, const struct failure *failure)
{
    writer_text(writer, "{\"error\":");
    writer_string0(writer, failure->error.message);
    writer_text(writer, "}");
}

static const struct dialect dialect = {.routes = routes,
                                       .n_routes = sizeof routes / sizeof *routes,
                                       .invalid_status = 422,
                                       .write_failure = write_failure,
                                       .out_of_memory = "{}"};

struct fixture {
    struct settings settings;
    struct engine *engine;
    struct served_model model;
    struct model_set set;
    struct model_sets sets;
    struct metrics *metrics;
    struct http *http;
};

static int open_server(struct fixture *fixture, bool pictures, bool tokenizes)
{
    static const struct dialect *const dialects[] = {&dialect, NULL};
    static char *arguments[] = {"linformerd", "--port", "0", "--http-threads", "1", "--payload-limit", "1000000"};
    static const char *const names[] = {"model"};
    struct engine_options none = {.threads = 1};
    enum settings_action action;
    const char *explain;
    struct error error;
    char *environment[] = {NULL};
    if (settings_read(sizeof arguments / sizeof *arguments, arguments, environment, &fixture->settings, &action,
                      &explain, &error) != 0 ||
        engine_open(&none, &fixture->engine, &error) != 0)
        fail_msg("%s", error.message);
    fixture->model = (struct served_model){.name = "model", .model = fake_model(NULL)};
    if (pictures)
        fixture->model.image = image_settings_default(4, 6);
    fixture->model.tokenizes = tokenizes;
    fixture->metrics = metrics_open(names, 1);
    fixture->set = (struct model_set){
        .models = &fixture->model, .n_models = 1, .takes_pictures = pictures, .tokenizes = tokenizes};
    fixture->sets = (struct model_sets)MODEL_SETS_OF(&fixture->set);
    struct service_options options = {.settings = &fixture->settings,
                                      .sets = &fixture->sets,
                                      .dialects = dialects,
                                      .engine = fixture->engine,
                                      .metrics = fixture->metrics};
    if (http_open(&options, &fixture->http, &error) != 0)
        fail_msg("%s", error.message);
    if (http_ready(fixture->http, &error) != 0)
        fail_msg("%s", error.message);
    return 0;
}

static void close_server(struct fixture *fixture)
{
    http_close(fixture->http);
    metrics_close(fixture->metrics);
    model_close(fixture->model.model);
    engine_close(fixture->engine);
    settings_free(&fixture->settings);
}

static void send_all(int descriptor, const char *bytes, size_t length)
{
    for (size_t sent = 0; sent < length;) {
        ssize_t count = send(descriptor, bytes + sent, length - sent, MSG_NOSIGNAL);
        assert_true(count > 0);
        sent += (size_t)count;
    }
}

/* Sends a request with a body of `length` letters, and returns the status. *thread is the thread's number in the
 * answer, or 0 if the answer contains none. */
static int call(const struct fixture *fixture, const char *method, const char *path, const char *type, size_t length,
                int *thread)
{
    char text[HTTP_ADDRESS_BYTES];
    assert_true(http_address(fixture->http, 0, text)); /* writes "http://127.0.0.1:PORT" */
    const uint16_t port = (uint16_t)strtol(strrchr(text, ':') + 1, NULL, 10);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    char head[256], answer[4096] = "", *body = malloc(length + 1);
    memset(body, 'x', length);
    snprintf(head, sizeof head, "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %zu\r\n%s%s\r\n\r\n",
             method, path, length, type ? "Content-Type: " : "X: ", type ? type : "y");
    send_all(descriptor, head, strlen(head));
    send_all(descriptor, body, length);
    for (size_t used = 0; used < sizeof answer - 1;) {
        ssize_t count = recv(descriptor, answer + used, sizeof answer - 1 - used, 0);
        if (count <= 0)
            break;
        used += (size_t)count;
        answer[used] = '\0';
    }
    free(body);
    close(descriptor);
    const char *found = strstr(answer, "\"thread\":");
    *thread = found ? atoi(found + strlen("\"thread\":")) : 0;
    assert_memory_equal(answer, "HTTP/1.1 ", 9);
    return atoi(answer + 9);
}

static void expect_reader(const struct fixture *fixture, const char *path, size_t length, int loop, bool by_loop)
{
    int thread;
    assert_int_equal(call(fixture, "POST", path, NULL, length, &thread), 200);
    assert_true(thread != 0);
    if ((thread == loop) != by_loop)
        fail_msg("%s with %zu bytes was read by %s", path, length, by_loop ? "a worker" : "the event loop");
}

static void readers_of_bodies(bool pictures)
{
    struct fixture fixture;
    int loop;
    open_server(&fixture, pictures, false);
    assert_int_equal(call(&fixture, "GET", "/loop", NULL, 0, &loop), 200);
    expect_reader(&fixture, "/picture", 10, loop, !pictures);
    expect_reader(&fixture, "/json", 10, loop, !pictures); /* the body may contain a picture in base64 */
    expect_reader(&fixture, "/any", 10, loop, true);
    expect_reader(&fixture, "/heavy", 0, loop, false);
    expect_reader(&fixture, "/picture", LARGE, loop, false);
    expect_reader(&fixture, "/any", LARGE, loop, false);
    close_server(&fixture);
}

static void workers_read_bodies_that_may_be_pictures(void **state)
{
    (void)state;
    readers_of_bodies(true);
}

static void without_picture_models_the_event_loop_reads_bodies(void **state)
{
    (void)state;
    readers_of_bodies(false);
}

static void a_tokenizer_lowers_the_limit_for_workers(void **state)
{
    (void)state;
    struct fixture fixture;
    int loop;
    for (int tokenizes = 0; tokenizes < 2; tokenizes++) {
        open_server(&fixture, false, tokenizes);
        assert_int_equal(call(&fixture, "GET", "/loop", NULL, 0, &loop), 200);
        expect_reader(&fixture, "/json", TEXT, loop, true);
        expect_reader(&fixture, "/json", TEXT + 1, loop, !tokenizes);
        expect_reader(&fixture, "/any", TEXT + 1, loop, !tokenizes);
        expect_reader(&fixture, "/light", TEXT + 1, loop, true);
        close_server(&fixture);
    }
}

static void only_picture_routes_accept_pictures(void **state)
{
    (void)state;
    static const struct {
        const char *path, *type;
        int status;
    } cases[] = {
        {"/picture", "image/jpeg", 200},
        {"/picture", "IMAGE/PNG; a=b", 200},
        {"/picture", "image/jpg", 200},
        {"/picture", "application/octet-stream", 200},
        {"/picture", "application/json", 200},
        {"/picture", "image/gif", 415},
        {"/picture", "image/jpegx", 415},
        {"/picture", "text/plain", 415},
        {"/picture", "multipart/form-data; boundary=a", 415},
        {"/json", "image/jpeg", 415},
        {"/json", "image/png", 415},
        {"/json", "application/octet-stream", 415},
        {"/json", "application/json", 200},
        {"/any", "image/jpeg", 200},
    };
    struct fixture fixture;
    int thread;
    open_server(&fixture, true, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int status = call(&fixture, "POST", cases[i].path, cases[i].type, 0, &thread);
        if (status != cases[i].status)
            fail_msg("%s with %s: %d", cases[i].path, cases[i].type, status);
    }
    close_server(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_read_bodies_that_may_be_pictures),
        cmocka_unit_test(without_picture_models_the_event_loop_reads_bodies),
        cmocka_unit_test(a_tokenizer_lowers_the_limit_for_workers),
        cmocka_unit_test(only_picture_routes_accept_pictures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
