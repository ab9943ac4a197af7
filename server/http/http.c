/* http: opening, draining and closing. The listener gives new connections to the event loops in turn.
 *
 * http_close first answers the accepted requests, then stops listening, and then waits until all connections are
 * closed. Only after this wait do the event loops stop, because stopping libmicrohttpd while a connection is suspended
 * aborts the process. */
#include "server/http/http.h"

#include "server/common/clock.h"
#include "server/common/memory.h"
#include "server/common/process.h"
#include "server/http/event_loop.h"
#include "server/http/exchange.h"
#include "server/http/listener.h"
#include "server/text/json_body.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Sizes in bytes. The budget of bodies that are being received is BODIES_AT_ONCE times --payload-limit. It is at least
 * MIN_BODIES_BUDGET and at most a quarter of the machine's memory, but one body of the largest size always fits. The
 * budget of results is a quarter of the machine's memory, but at least MIN_RESULTS_BUDGET. A part of each budget is
 * reserved for small shares (budget.h). */
#define BODIES_AT_ONCE 8
#define MIN_BODIES_BUDGET (INT64_C(64) << 20)
#define BODIES_RESERVE (INT64_C(8) << 20) /* bytes that are reserved for bodies of at most BODY_SMALL bytes */
#define BODY_SMALL (INT64_C(64) << 10)
#define MIN_RESULTS_BUDGET (INT64_C(64) << 20)
/* 1 / RESULTS_RESERVE of the budget is reserved for requests of at most REQUEST_SMALL bytes. */
#define RESULTS_RESERVE 8
#define REQUEST_SMALL (INT64_C(1) << 20)
#define DRAIN_PATIENCE_NS INT64_C(5000000000)   /* maximum wait for bodies that are still arriving */
#define ANSWER_PATIENCE_NS INT64_C(10000000000) /* maximum wait for clients that are still reading their answers */
#define FINISH_PATIENCE_NS INT64_C(1000000000)  /* maximum wait for answers to health probes at the end */
/* Minimum number of free descriptors after opening: for the listener, a connection, a file that a route reads. */
#define MIN_SPARE_DESCRIPTORS 5
/* Memory in bytes that libmicrohttpd allocates for each connection. The headers of a request must fit in it. */
#define CONNECTION_MEMORY (32 * 1024)

/* Event loops that serve the new connections in turn. */
struct loops {
    struct event_loop **list; /* an array of `count` event loops */
    int count;
    int next; /* index of the loop for the next connection. Only the listener's thread uses it */
};

struct http {
    struct exchange_shared shared;
    struct linger_room *linger;
    struct listener *listener; /* NULL after listening has stopped */
    bool unready;              /* http_unready was called */
    struct loops plain;        /* loops for connections that are not encrypted */
    struct loops encrypted;    /* loops for connections with TLS. None if TLS is not configured */
};

/* ---- Connections ---- */

static void connection_accepted(void *context, int fd, const struct sockaddr *address, socklen_t length)
{
    struct http *http = context;
    int64_t admission = connections_admit(http->shared.connections, fd);
    if (admission == 0) {
        close(fd);
        return;
    }
    bool encrypted = http->encrypted.count > 0 && address->sa_family != AF_UNIX;
    struct loops *loops = encrypted ? &http->encrypted : &http->plain;
    loops->next = (loops->next + 1) % loops->count;
    event_loop_add(loops->list[loops->next], fd, admission, address, length);
}

static void connection_lost(void *context, int fd, int64_t admission)
{
    struct exchange_shared *shared = context;
    connections_lost(shared->connections, fd, admission);
}

static void connection_changed(void *loop, struct MHD_Connection *connection, void **socket_context,
                               enum MHD_ConnectionNotificationCode code)
{
    struct exchange_shared *shared = event_loop_context(loop);
    (void)socket_context;
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        atomic_fetch_add(&shared->service.connections, 1);
        connections_started(shared->connections, connection_descriptor(connection));
    } else {
        atomic_fetch_sub(&shared->service.connections, 1);
        connections_closed(shared->connections, connection_descriptor(connection));
    }
}

/* ---- Opening and closing ---- */

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool make_room(struct budget *budget, int64_t bytes)
{
    const struct exchange_shared *shared = budget->context;
    return connections_make_room(shared->connections, budget, bytes);
}

static void init_shared(struct exchange_shared *shared, const struct service_options *options)
{
    int64_t part = memory_bytes("") / 4;
    int64_t payload = options->settings->payload_limit; /* at most 2^40 */
    int64_t bodies = larger(payload * BODIES_AT_ONCE, MIN_BODIES_BUDGET);
    struct budget *results = &shared->service.results;
    shared->service.options = *options;
    shared->service.opened_ns = clock_ns();
    shared->service.opened_s = (int64_t)time(NULL);
    shared->service.started_s = process_started_s();
    request_id_source_init(&shared->service.ids);
    results->limit = larger(part, MIN_RESULTS_BUDGET);
    results->reserve = results->limit / RESULTS_RESERVE;
    results->small = REQUEST_SMALL;
    shared->bodies.limit = larger(bodies < part ? bodies : part, payload + BODIES_RESERVE);
    shared->bodies.reserve = BODIES_RESERVE;
    shared->bodies.small = BODY_SMALL;
    results->make_room = shared->bodies.make_room = make_room;
    results->context = shared->bodies.context = shared;
    gate_init(&shared->gate);
}

/* Opens the loops for connections that are encrypted with `tls`. If `tls` is NULL, they are for connections that are
 * not encrypted. */
static int open_loops(struct http *http, struct loops *loops, struct tls *tls, struct error *error)
{
    const struct settings *settings = http->shared.service.options.settings;
    /* connections_admit enforces the limit. libmicrohttpd's own limit is set higher, so that it is never reached. */
    int64_t max_connections = connections_limit(http->shared.connections) * 2 + 1024;
    struct event_loop_options options = {
        .target = exchange_target,
        .handle = exchange_handle,
        .completed = exchange_completed,
        .changed = connection_changed,
        .lost = connection_lost,
        .context = &http->shared,
        .max_connections = (unsigned int)max_connections,
        .timeout_s = (unsigned int)settings->connection_timeout_s,
        .connection_memory = CONNECTION_MEMORY,
        .tls = tls,
    };
    loops->list = calloc((size_t)settings->http_threads, sizeof *loops->list);
    if (!loops->list)
        return error_set(error, "out of memory");
    for (; loops->count < settings->http_threads; loops->count++) {
        if (event_loop_open(&options, &loops->list[loops->count], error) != 0)
            return -1;
    }
    return 0;
}

/* Checks that the process can still open descriptors. Without this check, the daemon could report that it is ready, but
 * accept no connection. */
static int check_descriptors(struct error *error)
{
    int spare[MIN_SPARE_DESCRIPTORS], opened = 0;
    while (opened < MIN_SPARE_DESCRIPTORS && (spare[opened] = eventfd(0, EFD_CLOEXEC)) >= 0)
        opened++;
    bool enough = opened == MIN_SPARE_DESCRIPTORS;
    int reason = errno;
    while (opened > 0)
        close(spare[--opened]);
    return enough ? 0
                  : error_set(error, "no file descriptors are left for connections: %s (ulimit -n)", strerror(reason));
}

static void close_loops(struct loops *loops)
{
    while (loops->count > 0)
        event_loop_close(loops->list[--loops->count]);
    free(loops->list);
}

static void stop_listening(struct http *http)
{
    if (http->listener)
        listener_close(http->listener);
    http->listener = NULL;
}

static void http_free(struct http *http)
{
    close_loops(&http->encrypted);
    close_loops(&http->plain);
    workers_close(http->shared.workers);
    workers_close(http->shared.slow);
    connections_close(http->shared.connections);
    linger_close(http->linger);
    gate_destroy(&http->shared.gate);
    free(http);
}

int http_open(const struct service_options *options, struct http **opened, struct error *error)
{
    const struct settings *settings = options->settings;
    struct http *http = calloc(1, sizeof *http);
    if (!http)
        return error_set(error, "out of memory");
    struct listener_options listener = {
        .sockets = {.hosts = settings->host,
                    .port = (int)settings->port,
                    .reuse_port = settings->reuse_port,
                    .unix_mode = (int)strtol(settings->unix_socket_mode, NULL, 8)},
        .accepted = connection_accepted,
        .context = http,
    };
    json_body_init();
    init_shared(&http->shared, options);
    if (linger_open(&http->linger, error) != 0 ||
        connections_open(settings->max_connections, http->linger, &http->shared.connections, error) != 0 ||
        workers_open((int)settings->http_threads, &http->shared.workers, error) != 0 ||
        (options->control && options->control->load && workers_open(1, &http->shared.slow, error) != 0) ||
        open_loops(http, &http->plain, NULL, error) != 0 ||
        (options->tls && open_loops(http, &http->encrypted, options->tls, error) != 0) ||
        check_descriptors(error) != 0 || listener_open(&listener, &http->listener, error) != 0) {
        http_free(http);
        return -1;
    }
    *opened = http;
    return 0;
}

bool http_address(const struct http *http, int index, char text[HTTP_ADDRESS_BYTES])
{
    const struct sockets *sockets = listener_sockets(http->listener);
    if (index >= sockets->n_names)
        return false;
    bool is_unix = strncmp(sockets->names[index], "unix:", 5) == 0;
    const char *scheme = is_unix ? "" : http->encrypted.count > 0 ? "https://" : "http://";
    snprintf(text, HTTP_ADDRESS_BYTES, "%s%s", scheme, sockets->names[index]);
    return true;
}

bool http_shares_sockets(const struct http *http)
{
    return listener_sockets(http->listener)->shared;
}

int http_ready(struct http *http, struct error *error)
{
    gate_open(&http->shared.gate);
    atomic_store(&http->shared.service.ready, true);
    return listener_start(http->listener, error);
}

static bool loops_turn(struct loops *loops)
{
    bool turn = true;
    for (int i = 0; i < loops->count; i++)
        turn = event_loop_turns(loops->list[i]) && turn;
    return turn;
}

bool http_turns(struct http *http)
{
    bool plain = loops_turn(&http->plain), encrypted = loops_turn(&http->encrypted);
    return plain && encrypted;
}

void http_unready(struct http *http)
{
    http->unready = true;
    atomic_store(&http->shared.service.ready, false);
    gate_begin_closing(&http->shared.gate);
}

/* Sets the time at which generations of tokens end at the latest. Generations need this limit, because they have no
 * deadline after their first token. Other requests have a deadline. */
static void bound_generations(struct service *service)
{
    int64_t timeout_ms = service->options.settings->request_timeout_ms, none = 0;
    if (timeout_ms > 0)
        atomic_compare_exchange_strong(&service->drain_end_ns, &none, clock_ns() + timeout_ms * 1000000);
}

void http_hand_over(struct http *http, int64_t patience_ns)
{
    gate_begin_closing(&http->shared.gate);
    stop_listening(http);
    connections_dismiss(http->shared.connections, patience_ns);
}

/* If http_unready was not called, clients have had no time to choose another server. So the sockets stay open, because
 * an answer 503 is more helpful for clients than a refused connection. */
void http_drain(struct http *http)
{
    atomic_store(&http->shared.service.ready, false);
    if (http->unready && http->listener) {
        stop_listening(http);
        connections_settle(http->shared.connections);
    }
    gate_drain(&http->shared.gate);
    bound_generations(&http->shared.service);
}

void http_close(struct http *http)
{
    if (!http)
        return;
    http_drain(http);
    gate_shut(&http->shared.gate, DRAIN_PATIENCE_NS, ANSWER_PATIENCE_NS);
    stop_listening(http);
    connections_finish(http->shared.connections, FINISH_PATIENCE_NS);
    http_free(http);
}
