/* exchange: the way of one request, from its headers to its answer.
 *
 *     headers -> (refused) -> body -> read -> (answered | failed) -> reply
 *                                          -> batcher -> answer   -> reply
 *
 * What takes long is done by a worker, the rest on the event loop; is_large alone decides. `stage` is read and written
 * by whichever thread has the exchange; suspending and resuming orders them. */
#include "server/http/exchange.h"

#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/metrics.h"
#include "server/http/body.h"
#include "server/http/coding.h"
#include "server/http/framing.h"
#include "server/http/peer.h"
#include "server/http/refusal.h"
#include "server/http/reply.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define LARGE_BYTES (64 * 1024) /* of JSON: about a millisecond */
#define LOGGED_PATH_BYTES 256
#define ALIGNMENT 16                      /* of binary data in bodies: what the engine reads where it lies */
#define HALF_CLOSE_NS INT64_C(1000000000) /* an end within this time behind a request is that of its sending half */

enum stage {
    STAGE_BODY,   /* is being received */
    STAGE_ANSWER, /* the job was run */
    STAGE_REPLY,  /* request.answer or request.failure is what the client gets */
};

enum passage { PASSAGE_NONE, PASSAGE_ADMITTED, PASSAGE_ACCEPTED, PASSAGE_ANSWERED };

struct exchange {
    struct task task;
    struct server *server;
    struct event_loop *loop; /* the connection's */
    struct resumption resumption;
    struct MHD_Connection *connection;
    int descriptor;
    struct route_match match;
    char method[16]; /* both for the log */
    char *path;      /* NULL: no request is logged */
    enum stage stage;
    enum passage passage; /* through the gate */
    bool suspended;
    bool half_closed; /* the client's end came with its request */
    struct body body;
    enum coding coding; /* of the body */
    struct request request;
    struct reply reply;
    int64_t begun_ns, complete_ns; /* complete_ns: its body was */
};

int connection_descriptor(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
}

static const struct sockaddr *connection_address(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

    return info ? info->client_addr : NULL;
}

/* ---- Between threads ---- */

static bool is_large(int64_t bytes)
{
    return bytes > LARGE_BYTES;
}

/* A worker runs it; peers take turns. */
static void exchange_hand_on(struct exchange *exchange, void (*run)(struct task *task))
{
    exchange->task.run = run;
    exchange->task.peer = peer_of(connection_address(exchange->connection));
    workers_add(exchange->server->workers, &exchange->task);
}

static void exchange_suspend(struct exchange *exchange)
{
    exchange->suspended = true;
    MHD_suspend_connection(exchange->connection);
}

/* The exchange belongs to its event loop again; the caller does not touch it any more. */
static void exchange_resume(struct exchange *exchange, enum stage stage)
{
    exchange->stage = stage;
    exchange->suspended = false;
    exchange->resumption.connection = exchange->connection;
    event_loop_resume(exchange->loop, &exchange->resumption);
}

static struct exchange *job_exchange(struct job *job)
{
    return job->context;
}

enum client_state {
    CLIENT_STAYS,
    CLIENT_ENDED, /* it closed its connection, or its sending half alone */
    CLIENT_GONE,  /* its connection is reset */
};

static enum client_state client_state(const struct exchange *exchange)
{
    char byte;
    ssize_t length = recv(exchange->descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);

    if (length == 0)
        return CLIENT_ENDED;
    return length > 0 || errno == EAGAIN || errno == EINTR ? CLIENT_STAYS : CLIENT_GONE;
}

/* A job is not worth a run once its client is gone. libmicrohttpd does not watch a suspended connection, so the socket
 * is looked at here. It stays open while the connection is suspended.
 * A client that left and one that closed its sending half alone look the same. The time tells them apart: the latter
 * closes it right behind its request, the former leaves when it has waited too long. */
static bool job_wanted(struct job *job)
{
    const struct exchange *exchange = job_exchange(job);
    enum client_state state = client_state(exchange);

    if (state == CLIENT_ENDED)
        return exchange->half_closed || clock_ns() - exchange->complete_ns < HALF_CLOSE_NS;
    return state == CLIENT_STAYS;
}

/* ---- After the job ---- */

/* Packs the answer when the client wants that, and sends it as it is when there is no memory for two of it. */
static void exchange_pack(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    int64_t bytes = (int64_t)request->answer.length;
    enum coding coding;

    if (exchange->match.route->body != BODY_ANY)
        return;
    coding = coding_wanted(request->header(request, "Accept-Encoding"));
    if (coding == CODING_NONE || !share_take(&request->memory, bytes))
        return;
    if (coding_pack(coding, &request->answer))
        request->answer_encoding = coding_name(coding);
}

/* Turns what the batcher left into an answer or a failure. */
static void exchange_answer(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct job *job = &request->job;

    switch (job->status) {
    case JOB_OK:
        if (exchange->match.route->answer(request))
            return;
        if (request->answer.failed)
            failure_memory(&request->failure);
        else
            exchange_pack(exchange);
        return;
    case JOB_EXPIRED:
        failure_set(&request->failure, FAILURE_EXPIRED, "%s", job->error.message);
        return;
    case JOB_CANCELLED:
        failure_set(&request->failure, FAILURE_GONE, "the client is gone");
        return;
    case JOB_FAILED:
    case JOB_NOT_FINITE:
        failure_set(&request->failure, FAILURE_BACKEND, "%s", job->error.message);
        return;
    }
}

static void task_answer(struct task *task)
{
    struct exchange *exchange = (struct exchange *)task;

    exchange_answer(exchange);
    exchange_resume(exchange, STAGE_REPLY);
}

/* On the batcher's thread, which has more to do. */
static void job_done(struct job *job)
{
    struct exchange *exchange = job_exchange(job);

    if (job->status == JOB_OK && is_large(exchange->request.answer_bytes)) {
        exchange_hand_on(exchange, task_answer);
    } else {
        exchange_resume(exchange, STAGE_ANSWER);
    }
}

/* ---- The complete body ---- */

static int exchange_submit(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct job *job = &request->job;
    const struct service_options *options = &exchange->server->service.options;

    job->wanted = job_wanted;
    job->done = job_done;
    job->context = exchange;
    switch (batcher_submit(options->batcher, request->model_index, job)) {
    case SUBMIT_OK:
        return 0;
    case SUBMIT_FULL:
        exchange->reply.retry_after_s = batcher_retry_after_s(options->batcher, request->model_index);
        return failure_set(&request->failure, FAILURE_OVERLOADED, "the queue is full; try again later");
    case SUBMIT_DRAINING:
        break;
    }
    return failure_set(&request->failure, FAILURE_UNAVAILABLE, "the server is about to stop");
}

static enum outcome exchange_decode(struct exchange *exchange)
{
    struct request *request = &exchange->request;

    if (coding_unpack(exchange->coding, &exchange->body, &request->failure))
        return OUTCOME_FAILED;
    request->body = exchange->body.data;
    request->body_length = exchange->body.length;
    return exchange->match.route->read(request);
}

/* Reads the body, on any thread. True: the reply is ready, and the connection not suspended. False: the exchange has
 * been handed on. */
static bool exchange_read(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    enum outcome outcome;

    outcome = exchange_decode(exchange);
    request_read_done(request);
    if (!request->body_kept)
        body_free(&exchange->body);
    if (outcome == OUTCOME_ANSWERED && request->answer.failed)
        failure_memory(&request->failure);
    if (outcome == OUTCOME_RUN) {
        if (!exchange->suspended)
            exchange_suspend(exchange); /* first: the job may be done before batcher_submit returns */
        if (exchange_submit(exchange) == 0)
            return false;
    }
    exchange->stage = STAGE_REPLY;
    if (!exchange->suspended)
        return true;
    exchange_resume(exchange, STAGE_REPLY);
    return false;
}

static void task_read(struct task *task)
{
    exchange_read((struct exchange *)task);
}

/* As exchange_read, on the event loop. */
static bool exchange_complete(struct exchange *exchange)
{
    int64_t timeout_ms = exchange->server->service.options.settings->request_timeout_ms;

    connections_busy(exchange->server->connections, exchange->descriptor);
    connections_holds(exchange->server->connections, exchange->descriptor, NULL);
    if (exchange->passage == PASSAGE_ADMITTED) {
        if (!gate_accept(&exchange->server->gate)) {
            exchange->passage = PASSAGE_NONE;
            failure_set(&exchange->request.failure, FAILURE_UNAVAILABLE, "the server is about to stop");
            exchange->stage = STAGE_REPLY;
            return true;
        }
        exchange->passage = PASSAGE_ACCEPTED;
    }
    exchange->complete_ns = clock_ns();
    exchange->half_closed = client_state(exchange) == CLIENT_ENDED;
    if (timeout_ms > 0)
        exchange->request.job.deadline_ns = exchange->complete_ns + timeout_ms * 1000000;
    if (!is_large((int64_t)exchange->body.length) && exchange->coding == CODING_NONE)
        return exchange_read(exchange);
    exchange_suspend(exchange);
    exchange_hand_on(exchange, task_read);
    return false;
}

/* ---- The reply ---- */

/* Passes the gate as far as `passage`, or out of it with PASSAGE_NONE. */
static void exchange_leave(struct exchange *exchange, enum passage passage)
{
    struct gate *gate = &exchange->server->gate;

    if (exchange->passage == PASSAGE_ADMITTED && passage == PASSAGE_NONE) {
        gate_abandon(gate);
        exchange->passage = PASSAGE_NONE;
    }
    if (exchange->passage == PASSAGE_ACCEPTED) {
        gate_answer(gate);
        exchange->passage = PASSAGE_ANSWERED;
    }
    if (exchange->passage == PASSAGE_ANSWERED && passage == PASSAGE_NONE) {
        gate_leave(gate);
        exchange->passage = PASSAGE_NONE;
    }
}

static enum MHD_Result exchange_reply(struct exchange *exchange)
{
    struct reply *reply = &exchange->reply;

    reply->total_ns = clock_ns() - exchange->begun_ns;
    reply->close = reply->close || gate_closing(&exchange->server->gate);
    request_answered(&exchange->request);
    connections_holds(exchange->server->connections, exchange->descriptor, &exchange->request.memory);
    exchange_leave(exchange, PASSAGE_ANSWERED);
    return reply_send(reply, exchange->connection, &exchange->match, &exchange->request);
}

/* A refusal while the body still comes in: libmicrohttpd takes no response at this point, so it is written past it. */
static enum MHD_Result exchange_break_off(struct exchange *exchange, enum body_status status)
{
    struct failure *failure = &exchange->request.failure;

    if (status == BODY_TOO_LARGE)
        refusal_too_large(failure, exchange->server->service.options.settings);
    else
        failure_set(failure, FAILURE_OVERLOADED, "too many bodies are being received; try again later");
    exchange->stage = STAGE_REPLY;
    body_free(&exchange->body);
    connections_unread(exchange->server->connections, exchange->descriptor);
    exchange->reply.retry_after_s = 1;
    reply_send_raw(&exchange->reply, exchange->descriptor, &exchange->match, &exchange->request);
    return MHD_NO;
}

/* ---- libmicrohttpd's side ---- */

static const char *request_header(const struct request *request, const char *name)
{
    const struct exchange *exchange =
        (const struct exchange *)((const char *)request - offsetof(struct exchange, request));

    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

/* The path of an absolute URL, which a proxy's client sends. */
static const char *url_path(const char *url)
{
    if (strncmp(url, "http://", 7) != 0)
        return url;
    url = strchr(url + 7, '/');
    return url ? url : "/";
}

/* How the body comes. Binary data follows a JSON header of any length, and shall be aligned all the same. */
static void expect_body(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    const char *length;

    if (!exchange->match.route || exchange->match.route->body != BODY_ANY)
        return;
    exchange->coding = coding_of(request->header(request, "Content-Encoding"));
    length = request->header(request, "Inference-Header-Content-Length");
    if (length)
        exchange->body.lead = (size_t)(-strtoull(length, NULL, 10) % ALIGNMENT);
}

/* Replies in libmicrohttpd's first call. The rest of what the client sends is never looked at. */
static enum MHD_Result exchange_refuse(struct exchange *exchange)
{
    exchange->stage = STAGE_REPLY;
    exchange->reply.close = true;
    connections_unread(exchange->server->connections, exchange->descriptor);
    return exchange_reply(exchange);
}

static enum MHD_Result exchange_begin(struct event_loop *loop, struct MHD_Connection *connection, const char *url,
                                      const char *method, const char *version, void **context)
{
    struct exchange *exchange = calloc(1, sizeof *exchange);
    struct server *server = event_loop_context(loop);
    const struct settings *settings = server->service.options.settings;
    struct request *request;

    if (!exchange)
        return MHD_NO;
    *context = exchange;
    request = &exchange->request;
    exchange->server = server;
    exchange->loop = loop;
    exchange->connection = connection;
    exchange->descriptor = connection_descriptor(connection);
    exchange->begun_ns = clock_ns();
    exchange->body.share.budget = &server->bodies;
    exchange->body.limit = (size_t)settings->payload_limit;
    request_open(request, &server->service, NULL, 0);
    request->header = request_header;
    request_id_set(&request->id, &server->service.ids, request->header(request, "x-request-id"),
                   request->header(request, "traceparent"));
    snprintf(exchange->method, sizeof exchange->method, "%s", method);
    if (log_enabled(LOG_LEVEL_DEBUG))
        exchange->path = strndup(url_path(url), LOGGED_PATH_BYTES);
    routes_find(exchange->server->service.options.dialects, method, url_path(url), &exchange->match);
    memcpy(request->parameters, exchange->match.parameters, sizeof request->parameters);
    if (framing_check(connection, method, version, &request->failure) != 0)
        return exchange_refuse(exchange);
    expect_body(exchange);

    if (refusal_of_headers(&exchange->match, request, method) == 0 && exchange->match.route &&
        exchange->match.route->work) {
        if (gate_admit(&server->gate))
            exchange->passage = PASSAGE_ADMITTED;
        else
            failure_set(&request->failure, FAILURE_UNAVAILABLE,
                        "the server takes no work: it starts, or it is about to stop");
    }
    connections_idle(server->connections, exchange->descriptor); /* not silent: so it is admitted by now */
    connections_holds(server->connections, exchange->descriptor, &exchange->body.share);
    if (request->failure.kind == FAILURE_NONE && exchange->match.route)
        return MHD_YES;
    if (refusal_has_body(request))
        return exchange_refuse(exchange);
    exchange->stage = STAGE_REPLY;
    return MHD_YES; /* replied to in the next call: a reply in the first one would cost the connection */
}

enum MHD_Result exchange_handle(void *loop, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_size, void **context)
{
    struct exchange *exchange = *context;

    if (!exchange)
        return exchange_begin(loop, connection, url, method, version, context);
    if (*data_size > 0) {
        enum body_status status = body_append(&exchange->body, data, *data_size);

        if (status != BODY_OK)
            return exchange_break_off(exchange, status);
        connections_idle(exchange->server->connections, exchange->descriptor);
        *data_size = 0;
        return MHD_YES;
    }
    if (exchange->stage == STAGE_BODY && !exchange_complete(exchange))
        return MHD_YES;
    if (exchange->stage == STAGE_ANSWER) {
        exchange_answer(exchange);
        exchange->stage = STAGE_REPLY;
    }
    return exchange_reply(exchange);
}

/* "192.0.2.1:40000", "[2001:db8::1]:40000" */
static void client_text(struct MHD_Connection *connection, char *text, size_t size)
{
    const struct sockaddr *address = connection_address(connection);
    char host[INET6_ADDRSTRLEN] = "";
    if (address && address->sa_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)address;
        inet_ntop(AF_INET, &ipv4->sin_addr, host, sizeof host);
        snprintf(text, size, "%s:%d", host, ntohs(ipv4->sin_port));
    } else if (address && address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)address;
        bool mapped = IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr); /* IPv4 that came to [::] */
        inet_ntop(mapped ? AF_INET : AF_INET6, ipv6->sin6_addr.s6_addr + (mapped ? 12 : 0), host, sizeof host);
        snprintf(text, size, mapped ? "%s:%d" : "[%s]:%d", host, ntohs(ipv6->sin6_port));
    } else {
        snprintf(text, size, "unknown");
    }
}

static void log_exchange(const struct exchange *exchange, const char *route, int status, int64_t total_ns)
{
    const struct request *request = &exchange->request;
    const char *ignored = request->ignored.list;
    char client[INET6_ADDRSTRLEN + 16];
    if (!log_enabled(LOG_LEVEL_DEBUG))
        return;
    client_text(exchange->connection, client, sizeof client);
    log_write(LOG_LEVEL_DEBUG, "request", "client", client, "request_id", request->id.text, "method", exchange->method,
              "path", exchange->path ? exchange->path : route, "model",
              request->info ? request_model_name(request) : NULL, LOG_INTEGER("status", status),
              LOG_INTEGER("tokens", request->job.tokens), LOG_DECIMAL("ms", (double)total_ns / 1e6), "ignored_keys",
              ignored[0] ? ignored : NULL, NULL);
}

void exchange_completed(void *loop, struct MHD_Connection *connection, void **exchange_context,
                        enum MHD_RequestTerminationCode code)
{
    struct server *server = event_loop_context(loop);
    struct exchange *exchange = *exchange_context;
    const struct job *job = &exchange->request.job;
    int64_t total_ns, queue_ns = 0;
    const char *route;
    int status;

    (void)connection;
    (void)code;
    if (!exchange)
        return;
    route = exchange->match.route ? exchange->match.route->path : "unmatched";
    status = exchange->reply.status ? exchange->reply.status : failure_status(FAILURE_GONE);
    total_ns = clock_ns() - exchange->begun_ns;
    if (job->finished_ns) /* it was admitted */
        queue_ns = (job->started_ns ? job->started_ns : job->finished_ns) - job->submitted_ns;
    metrics_request(server->service.options.metrics, route,
                    exchange->request.info ? exchange->request.model_index : METRICS_NO_MODEL, status, total_ns,
                    queue_ns, job->inference_ns);
    log_exchange(exchange, route, status, total_ns);
    connections_holds(server->connections, exchange->descriptor, NULL);
    if (exchange->passage == PASSAGE_ADMITTED)
        exchange_leave(exchange, PASSAGE_NONE); /* it never arrived */
    connections_idle(server->connections, exchange->descriptor);
    body_free(&exchange->body);
    request_close(&exchange->request);
    exchange_leave(exchange, PASSAGE_NONE);
    free(exchange->path);
    free(exchange);
    *exchange_context = NULL;
}
