/* exchange: the way of one request, from its headers to its answer. libmicrohttpd calls exchange_target for the request
 * line. It calls exchange_handle for the headers, for each piece of the body, for the end of the body, and again after
 * each resumption.
 *
 *     exchange_target    the request line has arrived: allocates the exchange
 *     exchange_begin     the headers have arrived: checks framing, route, API key and gate
 *     exchange_complete  the body has arrived: checks trailers, sets the deadline, then exchange_read
 *     exchange_read      decodes the body and calls the route's `read`, then submits the job
 *     job_done           the batcher has run the job. If the request needs another job, submits it
 *     exchange_answer    calls the route's `answer`
 *     exchange_reply     sends the answer or the failure
 *
 * After a failure, or if the route needs no job, the next step is exchange_reply. A worker thread runs exchange_read
 * for large bodies, compressed bodies, bodies that may contain pictures, and heavy routes. A worker also runs
 * exchange_answer for large answers. A thread of the batcher runs job_done. The event loop runs the other steps.
 *
 * A streamed answer (stream.h) is sent while jobs run. For such an answer, job_done calls stream_job_done. The first
 * text resumes the connection, and the reply starts. From this time on, two threads use the exchange. The event loop
 * calls only exchange_stream, read_stream and exchange_completed. The writer of the stream calls all other functions.
 *
 * Without a stream, only one thread at a time changes an exchange. Suspending and resuming the connection orders the
 * threads, so an exchange needs no lock. After the job was submitted, job_wanted may run on several threads of the
 * batcher at once. It reads the exchange, and changes only `half_closed`. */
#define _GNU_SOURCE /* POLLRDHUP */
#include "server/http/exchange.h"

#include "server/common/clock.h"
#include "server/http/body.h"
#include "server/http/coding.h"
#include "server/http/framing.h"
#include "server/http/peer.h"
#include "server/http/record.h"
#include "server/http/refusal.h"
#include "server/http/reply.h"
#include "server/http/stream.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A body or an answer of more bytes than this is large. JSON of this size takes about a millisecond to read or
 * write. */
#define LARGE_BYTES (64 * 1024)
/* A body that may contain text for a tokenizer.json is large if it has more bytes than this. A tokenizer.json converts
 * text of this size to ids in about a millisecond. */
#define LARGE_TEXT_BYTES (8 * 1024)
#define ALIGNMENT 16 /* in bytes, for binary data in a body, because the engine reads these data in place */

/* Times after the body was complete. They decide whether a client that has closed the connection, or only its sending
 * half, still waits for its answer (one_job_wanted, several_jobs_wanted). */
#define HALF_CLOSE_NS INT64_C(1000000000)
#define HALF_CLOSE_SOON_NS INT64_C(100000000)

enum stage {
    STAGE_BODY,   /* the body is being received */
    STAGE_ANSWER, /* the job has run */
    STAGE_STREAM, /* the first text of a streamed answer is ready */
    STAGE_REPLY,  /* request.answer or request.failure is ready to be sent */
};

/* The last step of a request for work through the gate (gate.h), and the call that must follow. A request for work is a
 * request to a model, to /tokenize or to /decode, or a request to load or unload a model. */
enum passage {
    PASSAGE_NONE,     /* no call must follow */
    PASSAGE_ADMITTED, /* gate_accept or gate_abandon must follow */
    PASSAGE_ACCEPTED, /* gate_answer must follow */
    PASSAGE_ANSWERED, /* gate_leave must follow */
};

struct exchange {
    /* Must be the first member: functions convert a pointer to the task to a pointer to the exchange. */
    struct task task;
    struct framing_target target;
    struct exchange_shared *shared; /* NULL until the headers have arrived */
    struct event_loop *loop;        /* the event loop of the connection */
    struct resumption resumption;
    struct MHD_Connection *connection;
    int descriptor;
    struct route_match match;
    struct record record;
    enum stage stage;
    enum passage passage;
    bool suspended;
    /* The client had closed its sending half when its body was complete. If the request may have several jobs, also
     * true if the client did so within HALF_CLOSE_SOON_NS after that. */
    _Atomic bool half_closed;
    struct stream *stream; /* NULL if the answer is not streamed */
    bool streaming;        /* the connection was resumed to send the stream */
    struct body body;
    enum coding coding; /* the compression of the body that the client sent */
    struct request request;
    struct reply reply;
    int64_t complete_ns; /* CLOCK_MONOTONIC, in nanoseconds: the time at which the body was complete */
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

/* Gives the exchange to a worker. The workers serve the clients in turn (workers.h). */
static void exchange_hand_on(struct exchange *exchange, struct workers *workers, void (*run)(struct task *task))
{
    exchange->task.run = run;
    exchange->task.peer = peer_of(connection_address(exchange->connection));
    workers_add(workers, &exchange->task);
}

/* Does nothing if the connection is already suspended. */
static void exchange_suspend(struct exchange *exchange)
{
    if (exchange->suspended)
        return;
    exchange->suspended = true;
    MHD_suspend_connection(exchange->connection);
}

/* Returns the exchange to its event loop. The caller must not access the exchange afterwards. */
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
    CLIENT_ENDED, /* the client has closed the connection, or only its sending half */
    CLIENT_GONE,  /* the connection was reset */
};

/* Asks the kernel for the state of the connection. Reading would not work, because bytes that wait may be encrypted, or
 * belong to the next request. */
static enum client_state client_state(const struct exchange *exchange)
{
    struct pollfd polled = {.fd = exchange->descriptor, .events = POLLRDHUP};
    if (poll(&polled, 1, 0) <= 0)
        return CLIENT_STAYS;
    return polled.revents & (POLLHUP | POLLERR | POLLNVAL) ? CLIENT_GONE : CLIENT_ENDED;
}

/* Like client_state, but also allowed while the event loop may close the connection, as it may during a streamed
 * answer. */
static enum client_state job_client_state(const struct exchange *exchange)
{
    if (!exchange->stream)
        return client_state(exchange);
    if (!stream_hold(exchange->stream))
        return CLIENT_GONE;
    enum client_state state = client_state(exchange);
    stream_release(exchange->stream);
    return state;
}

/* The two functions below are called if the client has closed the connection, or only its sending half. The kernel
 * reports both cases in the same way, and only the time distinguishes them. A client that closes only its sending half
 * does so right after its request, and waits for the answer. A client that leaves closes the connection later. The
 * functions return whether the client is assumed to wait for its answer. `waited_ns` is the time since the body was
 * complete. */

/* For a request with one job. If the sending half was already closed when the body was complete, the client counts as
 * waiting. Otherwise the time of closing is unknown, and the client counts as waiting until HALF_CLOSE_NS after the
 * body. */
static bool one_job_wanted(const struct exchange *exchange, int64_t waited_ns)
{
    return exchange->half_closed || waited_ns < HALF_CLOSE_NS;
}

/* For a request that may have several jobs. The work of such a request ends at once if the client is gone. The client
 * can count as waiting only if its sending half was closed early: when the body was complete, or when a call within
 * HALF_CLOSE_SOON_NS finds it closed. Such a client counts as waiting until HALF_CLOSE_NS after the body. Once a stream
 * has begun, such a client always counts as waiting, because a client that has left resets the connection when it
 * receives text of the stream. */
static bool several_jobs_wanted(struct exchange *exchange, int64_t waited_ns)
{
    if (waited_ns < HALF_CLOSE_SOON_NS)
        exchange->half_closed = true;
    return exchange->half_closed && (exchange->streaming || waited_ns < HALF_CLOSE_NS);
}

/* Returns false if the client is gone, so that the job need not run. libmicrohttpd does not watch a suspended
 * connection. So this function asks the kernel for the state of the socket, which stays open while the connection is
 * suspended. */
static bool job_wanted(struct job *job)
{
    struct exchange *exchange = job_exchange(job);
    enum client_state state = job_client_state(exchange);
    if (state != CLIENT_ENDED)
        return state == CLIENT_STAYS;
    int64_t waited_ns = clock_ns() - exchange->complete_ns;
    return exchange->request.next ? several_jobs_wanted(exchange, waited_ns) : one_job_wanted(exchange, waited_ns);
}

/* ---- The end ---- */

static void exchange_record(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    int status = exchange->reply.status ? exchange->reply.status : failure_status(FAILURE_GONE);
    if (exchange->streaming &&
        request->failure.kind != FAILURE_NONE) /* the failure occurred after the status 200 was sent */
        status = dialect_status(exchange->match.dialect, request->failure.kind);
    record_end(&exchange->record, request,
               &(struct record_answer){
                   .route = exchange->match.route ? exchange->match.route->path : NULL,
                   .infers = exchange->match.route && exchange->match.route->work == WORK_INFERENCE,
                   .complete_ns = exchange->complete_ns,
                   .status = status,
                   .bytes = exchange->reply.bytes,
               });
}

/* Makes the call to the gate that must still follow. */
static void exchange_leave(struct exchange *exchange)
{
    struct gate *gate = &exchange->shared->gate;
    switch (exchange->passage) {
    case PASSAGE_NONE:
        break;
    case PASSAGE_ADMITTED:
        gate_abandon(gate);
        break;
    case PASSAGE_ACCEPTED:
        gate_answer(gate);
        gate_leave(gate);
        break;
    case PASSAGE_ANSWERED:
        gate_leave(gate);
        break;
    }
}

static void exchange_destroy(struct exchange *exchange)
{
    exchange_record(exchange);
    body_free(&exchange->body);
    stream_close(exchange->stream);
    request_close(&exchange->request);
    exchange_leave(exchange);
    free(exchange);
}

/* ---- After the job ---- */

/* Compresses the answer of a route with ACCEPTS_BINARY if the client asked for it. If memory for a second copy is
 * lacking, the answer stays uncompressed. */
static void exchange_pack(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    int64_t bytes = (int64_t)request->answer.length;
    if (exchange->match.route->accepts != ACCEPTS_BINARY)
        return;
    enum coding coding = coding_wanted(request->header(request, "Accept-Encoding"));
    if (coding == CODING_NONE || !share_take(&request->memory, bytes))
        return;
    if (coding_pack(coding, &request->answer))
        request->answer_encoding = coding_name(coding);
}

/* Calls the route's `answer` if the job succeeded. Sets request.answer or request.failure. */
static void exchange_answer(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    const struct job *job = &request->job;
    switch (job->status) {
    case JOB_OK:
        if (exchange->match.route->answer(request) != 0)
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
        failure_set(&request->failure, FAILURE_GONE, "the client has disconnected");
        return;
    case JOB_FAILED:
    case JOB_NOT_FINITE:
        failure_set(&request->failure, FAILURE_BACKEND, "%s", job->error.message);
        return;
    }
}

/* Calls `answer` of a route whose work is slow. */
static void task_slow(struct task *task)
{
    struct exchange *exchange = (struct exchange *)task;
    struct request *request = &exchange->request;
    if (exchange->match.route->answer(request) == 0 && request->answer.failed)
        failure_memory(&request->failure);
    exchange_resume(exchange, STAGE_REPLY);
}

static void task_answer(struct task *task)
{
    struct exchange *exchange = (struct exchange *)task;
    exchange_answer(exchange);
    exchange_resume(exchange, STAGE_REPLY);
}

/* Submits the next job of the request. */
static void submit_next(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    request->job.continues = true;
    batcher_submit(exchange->shared->service.options.batcher, request->batcher_index, &request->job);
}

/* Whether the request needs another job. If true, request->job contains the items of the next job. */
static bool job_goes_on(struct request *request)
{
    return request->job.status == JOB_OK && request->next && request->next(request);
}

static void stream_job_done(struct exchange *exchange);

/* Called on the thread of a lane or of the deadlines (batcher.h). These threads must not write answers, because batches
 * wait for them. So a worker writes a large answer, and the event loop writes a small one. */
static void job_done(struct job *job)
{
    struct exchange *exchange = job_exchange(job);
    if (exchange->stream)
        stream_job_done(exchange);
    else if (job_goes_on(&exchange->request))
        submit_next(exchange);
    else if (job->status == JOB_OK && is_large(exchange->request.answer_bytes))
        exchange_hand_on(exchange, exchange->shared->workers, task_answer);
    else
        exchange_resume(exchange, STAGE_ANSWER);
}

/* ---- Streams: the writer's side ---- */

/* Moves the text in request.answer, which the route has written, to the stream. The first text resumes the connection.
 * If no more text can be sent, sets request.failure and returns -1. */
static int stream_send(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct writer *answer = &request->answer;
    bool asleep = false;
    if (answer->failed)
        return failure_memory(&request->failure);
    if (answer->length == 0)
        return 0;
    int status = stream_append(exchange->stream, answer->data, answer->length, &asleep);
    answer->length = 0;
    if (status == STREAM_NO_MEMORY)
        return failure_memory(&request->failure);
    if (status != 0)
        return failure_set(&request->failure, FAILURE_GONE,
                           "the client has disconnected, or reads its stream too slowly");
    if (exchange->streaming) {
        if (asleep)
            event_loop_resume(exchange->loop, &exchange->resumption);
        return 0;
    }
    exchange->streaming = true;
    exchange_resume(exchange, STAGE_STREAM);
    return 0;
}

/* Sends the last text of the stream. After a failure, this text is an event with the failure. Returns -1 if the text
 * cannot be sent. */
static int stream_send_last(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    if (request->failure.kind != FAILURE_NONE && request->failure.kind != FAILURE_GONE) {
        writer_text(&request->answer, "data: ");
        exchange->match.dialect->write_failure(&request->answer, &request->failure);
        writer_text(&request->answer, "\n\n");
    }
    return request->failure.kind == FAILURE_GONE ? -1 : stream_send(exchange);
}

/* Ends the writer's side of the stream. Frees the exchange, unless the connection is still sending the stream. The
 * caller must not access the exchange afterwards. */
static void stream_finish(struct exchange *exchange, bool broken)
{
    bool asleep = false;
    writer_free(&exchange->request.answer);
    request_answered(&exchange->request);
    gate_answer(&exchange->shared->gate);
    exchange->passage = PASSAGE_ANSWERED;
    if (stream_end(exchange->stream, broken, &asleep))
        exchange_destroy(exchange);
    else if (asleep)
        event_loop_resume(exchange->loop, &exchange->resumption);
}

/* Does the work of job_done for a streamed answer. If a failure occurs before the first text of the stream, the failure
 * is sent as an ordinary answer. */
static void stream_job_done(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    bool goes_on = job_goes_on(request);
    if (goes_on && stream_send(exchange) == 0) {
        submit_next(exchange);
        return;
    }
    if (request->failure.kind == FAILURE_NONE)
        exchange_answer(exchange);
    if (!exchange->streaming && request->failure.kind != FAILURE_NONE)
        exchange_resume(exchange, STAGE_REPLY);
    else
        stream_finish(exchange, stream_send_last(exchange) != 0);
}

/* ---- Streams: the sender's side ---- */

/* Returns the next piece of the stream. libmicrohttpd calls this function when the socket can be written. */
static ssize_t read_stream(void *context, uint64_t position, char *buffer, size_t size)
{
    struct exchange *exchange = context;
    (void)position;
    ssize_t length = stream_read(exchange->stream, buffer, size);
    if (length > 0)
        exchange->reply.bytes += length;
    if (length == STREAM_ENDED)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (length == STREAM_BROKEN)
        return MHD_CONTENT_READER_END_WITH_ERROR;
    if (length == STREAM_ASLEEP)
        MHD_suspend_connection(exchange->connection);
    return length;
}

static enum MHD_Result exchange_stream(struct exchange *exchange)
{
    struct reply *reply = &exchange->reply;
    exchange->stage = STAGE_REPLY;
    reply->close = reply->close || gate_closing(&exchange->shared->gate);
    return reply_stream(reply, exchange->connection, &exchange->request, read_stream, exchange);
}

/* ---- The complete body ---- */

static int refuse_stopping(struct exchange *exchange)
{
    return failure_set(&exchange->request.failure, FAILURE_UNAVAILABLE, "the server is stopping");
}

static int exchange_submit(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    struct job *job = &request->job;
    struct batcher *batcher = exchange->shared->service.options.batcher;
    job->wanted = job_wanted;
    job->done = job_done;
    job->context = exchange;
    if (batcher_submit(batcher, request->batcher_index, job) == SUBMIT_OK)
        return 0;
    exchange->reply.retry_after_s = batcher_retry_after_s(batcher, request->batcher_index);
    return failure_set(&request->failure, FAILURE_OVERLOADED, "the queue is full; try again later");
}

static enum outcome exchange_decode(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    if (coding_unpack(exchange->coding, &exchange->body, &request->failure) != 0)
        return OUTCOME_FAILED;
    request->body = exchange->body.data;
    request->body_length = exchange->body.length;
    return exchange->match.route->read(request);
}

/* Opens the stream of a streamed answer, suspends the connection, and submits the job. After success, the batcher owns
 * the exchange, and the caller must not access it. On failure sets request.failure and returns -1. */
static int exchange_run(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    if (request->streamed) {
        exchange->stream = stream_open(request->memory.budget);
        if (!exchange->stream)
            return failure_memory(&request->failure);
    }
    exchange_suspend(exchange); /* before batcher_submit, because the job may end before batcher_submit returns */
    return exchange_submit(exchange);
}

/* Decodes the body and calls the route's `read`, on any thread. Returns true if the reply is ready, and the connection
 * is not suspended. Returns false if another thread has taken over the exchange. */
static bool exchange_read(struct exchange *exchange)
{
    struct request *request = &exchange->request;
    enum outcome outcome = exchange_decode(exchange);
    request_read_done(request);
    if (!request->body_kept)
        body_free(&exchange->body);
    switch (outcome) {
    case OUTCOME_FAILED:
        break;
    case OUTCOME_ANSWERED:
        if (request->answer.failed)
            failure_memory(&request->failure);
        break;
    case OUTCOME_RUN:
        if (exchange_run(exchange) == 0)
            return false;
        break;
    case OUTCOME_SLOW:
        exchange_suspend(exchange);
        exchange_hand_on(exchange, exchange->shared->slow, task_slow);
        return false;
    }
    if (exchange->suspended) {
        exchange_resume(exchange, STAGE_REPLY);
        return false;
    }
    exchange->stage = STAGE_REPLY;
    return true;
}

static void task_read(struct task *task)
{
    exchange_read((struct exchange *)task);
}

/* Whether the event loop may call the route's `read` itself. A body that may contain a picture must go to a worker,
 * because even a small file may have many pixels. Only the JSON names the model, and the JSON is not parsed yet. So,
 * except for a route with ACCEPTS_BINARY, the body of each request for work may contain a picture if any served model
 * accepts pictures. The body of each request for work may contain text for a tokenizer.json if any served model has
 * this file. A worker reads such a body if it is longer than LARGE_TEXT_BYTES. */
static bool is_quickly_read(const struct exchange *exchange)
{
    const struct route *route = exchange->match.route;
    const struct model_set *set = exchange->request.set;
    if (route->heavy)
        return false;
    bool pictures = set->takes_pictures && route->work && route->accepts != ACCEPTS_BINARY;
    bool texts = set->tokenizes && route->work;
    return exchange->body.length <= (texts ? LARGE_TEXT_BYTES : LARGE_BYTES) && exchange->coding == CODING_NONE &&
           !pictures;
}

/* Called on the event loop when the body is complete. Returns the same values as exchange_read. */
static bool exchange_complete(struct exchange *exchange)
{
    struct exchange_shared *shared = exchange->shared;
    connections_busy(shared->connections, exchange->descriptor);
    connections_set_share(shared->connections, exchange->descriptor, NULL);
    if (framing_check_end(exchange->connection, &exchange->request.failure) != 0) {
        exchange->stage = STAGE_REPLY;
        return true;
    }
    if (exchange->passage == PASSAGE_ADMITTED) {
        bool accepted = gate_accept(&shared->gate);
        exchange->passage = accepted ? PASSAGE_ACCEPTED : PASSAGE_NONE;
        if (!accepted) {
            refuse_stopping(exchange);
            exchange->stage = STAGE_REPLY;
            return true;
        }
    }
    exchange->complete_ns = clock_ns();
    exchange->half_closed = client_state(exchange) == CLIENT_ENDED;
    int64_t timeout_ms = shared->service.options.settings->request_timeout_ms;
    if (timeout_ms > 0)
        exchange->request.job.deadline_ns = exchange->complete_ns + timeout_ms * 1000000;
    request_begin(&exchange->request);
    if (is_quickly_read(exchange))
        return exchange_read(exchange);
    exchange_suspend(exchange);
    exchange_hand_on(exchange, shared->workers, task_read);
    return false;
}

/* ---- The reply ---- */

static enum MHD_Result exchange_reply(struct exchange *exchange)
{
    struct reply *reply = &exchange->reply;
    struct gate *gate = &exchange->shared->gate;
    reply->total_ns = clock_ns() - exchange->record.begun_ns;
    reply->close = reply->close || gate_closing(gate);
    request_answered(&exchange->request);
    connections_set_share(exchange->shared->connections, exchange->descriptor, &exchange->request.memory);
    if (exchange->passage == PASSAGE_ACCEPTED) {
        gate_answer(gate);
        exchange->passage = PASSAGE_ANSWERED;
    }
    return reply_send(reply, exchange->connection, &exchange->match, &exchange->request);
}

/* Refuses a body that is still being received, for the reason in `status`. libmicrohttpd accepts no response before the
 * end of a body. So the answer is written directly to the socket, and the connection is closed. */
static enum MHD_Result exchange_break_off(struct exchange *exchange, enum body_status status)
{
    struct failure *failure = &exchange->request.failure;
    if (status == BODY_TOO_LARGE)
        refusal_too_large(failure, exchange->shared->service.options.settings);
    else
        body_no_room(failure);
    exchange->stage = STAGE_REPLY;
    body_free(&exchange->body);
    connections_unread(exchange->shared->connections, exchange->descriptor);
    reply_send_raw(&exchange->reply, exchange->connection, &exchange->match, &exchange->request);
    return MHD_NO;
}

/* Replies in libmicrohttpd's first call for the request. libmicrohttpd then never reads the body. */
static enum MHD_Result exchange_refuse(struct exchange *exchange)
{
    exchange->stage = STAGE_REPLY;
    exchange->reply.close = true;
    connections_unread(exchange->shared->connections, exchange->descriptor);
    return exchange_reply(exchange);
}

/* ---- The headers ---- */

static const char *request_header(const struct request *request, const char *name)
{
    const struct exchange *exchange =
        (const struct exchange *)((const char *)request - offsetof(struct exchange, request));
    return MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, name);
}

static const char *request_query(const struct request *request, const char *name)
{
    const struct exchange *exchange =
        (const struct exchange *)((const char *)request - offsetof(struct exchange, request));
    const char *value = NULL;
    size_t length = 0;
    if (MHD_lookup_connection_value_n(exchange->connection, MHD_GET_ARGUMENT_KIND, name, strlen(name), &value,
                                      &length) != MHD_YES)
        return NULL;
    return value ? value : "";
}

/* Returns the path of a request target, which may be an absolute URL, because clients send absolute URLs to a proxy. */
static const char *url_path(const char *url)
{
    size_t scheme = strncmp(url, "http://", 7) == 0 ? 7 : strncmp(url, "https://", 8) == 0 ? 8 : 0;
    if (scheme == 0)
        return url;
    url = strchr(url + scheme, '/');
    return url ? url : "/";
}

static void exchange_open(struct exchange *exchange, struct event_loop *loop, struct MHD_Connection *connection,
                          const char *url, const char *method)
{
    struct exchange_shared *shared = event_loop_context(loop);
    exchange->shared = shared;
    exchange->loop = loop;
    exchange->connection = connection;
    exchange->descriptor = connection_descriptor(connection);
    exchange->body.share.budget = &shared->bodies;
    exchange->body.limit = (size_t)shared->service.options.settings->payload_limit;
    routes_find(shared->service.options.dialects, method, url_path(url), &exchange->match);
    struct request *request = &exchange->request;
    request_open(request, &shared->service, NULL, 0);
    request->header = request_header;
    request->query = request_query;
    record_begin(&exchange->record, request, method, url_path(url), connection_address(connection));
    memcpy(request->parameters, exchange->match.parameters, sizeof request->parameters);
}

/* Prepares for receiving the body. In a request to /v2, binary data may follow a JSON header of any length. The `lead`
 * unused bytes before the body align these data. */
static void expect_body(struct exchange *exchange)
{
    const struct request *request = &exchange->request;
    if (!exchange->match.route || exchange->match.route->accepts != ACCEPTS_BINARY)
        return;
    exchange->coding = coding_of(request->header(request, "Content-Encoding"));
    const char *length = request->header(request, "Inference-Header-Content-Length");
    if (length)
        exchange->body.lead = (size_t)(-strtoull(length, NULL, 10) % ALIGNMENT);
}

/* Asks the gate to admit a request for work. On refusal sets request.failure and returns -1. */
static int exchange_admit(struct exchange *exchange)
{
    if (!exchange->match.route || !exchange->match.route->work)
        return 0;
    if (!gate_admit(&exchange->shared->gate))
        return failure_set(&exchange->request.failure, FAILURE_UNAVAILABLE,
                           "the server accepts no more requests, because it is stopping");
    exchange->passage = PASSAGE_ADMITTED;
    return 0;
}

static enum MHD_Result exchange_begin(struct exchange *exchange, struct event_loop *loop,
                                      struct MHD_Connection *connection, const char *url, const char *method,
                                      const char *version)
{
    exchange_open(exchange, loop, connection, url, method);
    struct request *request = &exchange->request;
    if (framing_check(connection, &exchange->target, method, url, version, &request->failure) != 0)
        return exchange_refuse(exchange);
    exchange->reply.close = framing_is_chunked(connection);
    expect_body(exchange);
    bool accepted = refusal_of_headers(&exchange->match, request, method) == 0 && exchange_admit(exchange) == 0;

    /* exchange_admit must come before connections_idle. When a server stops, it first calls connections_settle, which
     * waits for connections that have not sent a request yet. connections_idle ends this wait for the connection, and
     * the server may then close the gate. If exchange_admit came later, the gate could refuse a request that had
     * arrived in time. */
    connections_set_share(exchange->shared->connections, exchange->descriptor, &exchange->body.share);
    connections_idle(exchange->shared->connections, exchange->descriptor);
    if (accepted && exchange->match.route) /* without a route, only the method OPTIONS is accepted */
        return MHD_YES;
    if (refusal_has_body(request))
        return exchange_refuse(exchange);
    exchange->stage = STAGE_REPLY;
    return MHD_YES; /* the reply waits for libmicrohttpd's next call, because a reply in the first call would close the
                       connection */
}

void *exchange_target(void *loop, const char *target, struct MHD_Connection *connection)
{
    (void)loop;
    (void)connection;
    struct exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange)
        exchange->target = framing_target_of(target);
    return exchange;
}

enum MHD_Result exchange_handle(void *loop, struct MHD_Connection *connection, const char *url, const char *method,
                                const char *version, const char *data, size_t *data_size, void **context)
{
    struct exchange *exchange = *context;
    if (!exchange)
        return MHD_NO; /* memory for the exchange is lacking */
    if (!exchange->shared)
        return exchange_begin(exchange, loop, connection, url, method, version);
    if (*data_size > 0) {
        enum body_status status = body_append(&exchange->body, data, *data_size);
        if (status != BODY_OK)
            return exchange_break_off(exchange, status);
        connections_idle(exchange->shared->connections, exchange->descriptor);
        *data_size = 0;
        return MHD_YES;
    }
    if (exchange->stage == STAGE_BODY && !exchange_complete(exchange))
        return MHD_YES;
    if (exchange->stage == STAGE_STREAM)
        return exchange_stream(exchange);
    if (exchange->stage == STAGE_ANSWER) {
        exchange_answer(exchange);
        exchange->stage = STAGE_REPLY;
    }
    return exchange_reply(exchange);
}

/* ---- The end of the request ---- */

void exchange_completed(void *loop, struct MHD_Connection *connection, void **context,
                        enum MHD_RequestTerminationCode code)
{
    (void)loop;
    (void)connection;
    (void)code;
    struct exchange *exchange = *context;
    *context = NULL;
    if (!exchange || !exchange->shared) {
        free(exchange);
        return;
    }
    struct connections *connections = exchange->shared->connections;
    connections_end_request(connections, exchange->descriptor);
    if (!exchange->streaming || stream_leave(exchange->stream))
        exchange_destroy(exchange);
}
