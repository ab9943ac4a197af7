/* reply: sends the status, the headers and the bytes of an answer. */
#include "server/http/reply.h"

#include "server/http/cors.h"
#include "server/http/tls.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define STREAM_BLOCK_BYTES 4096 /* maximum number of bytes that libmicrohttpd requests from read_stream at once */

/* If the request has failed, replaces its answer by the failure. Sets the status. */
static void write_failure(struct reply *reply, const struct route_match *match, struct request *request)
{
    if (request->failure.kind != FAILURE_NONE) {
        writer_free(&request->answer);
        request->answer_type = "application/json";
        match->dialect->write_failure(&request->answer, &request->failure);
    }
    reply->status = dialect_status(match->dialect, request->failure.kind);
    if (request->answer.failed)
        reply->status = failure_status(FAILURE_BACKEND);
    else if (request->failure.kind == FAILURE_NONE && !match->route)
        reply->status = MHD_HTTP_NO_CONTENT; /* the request is OPTIONS, which matches no route */
    else if (request->failure.kind == FAILURE_NONE && request->unchanged)
        reply->status = MHD_HTTP_NOT_MODIFIED;
}

static void add_number(struct MHD_Response *response, const char *name, int64_t value)
{
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    MHD_add_response_header(response, name, text);
}

/* Adds three headers with times in whole milliseconds, and a header with the number of tokens. The headers have the
 * same names as in text-embeddings-inference. */
static void add_times(struct MHD_Response *response, const struct reply *reply, const struct job *job)
{
    int64_t queue_ns = job->started_ns ? job->started_ns - job->submitted_ns : 0;
    add_number(response, "x-total-time", reply->total_ns / 1000000);
    add_number(response, "x-queue-time", queue_ns / 1000000);
    add_number(response, "x-inference-time", job->inference_ns / 1000000);
    add_number(response, "x-compute-tokens", job->tokens);
}

static void add_header(void *response, const char *name, const char *value)
{
    MHD_add_response_header(response, name, value);
}

/* Whether the reply answers OPTIONS, and so must list the methods of the path. */
static bool lists_methods(const struct reply *reply)
{
    return reply->status == MHD_HTTP_NO_CONTENT;
}

/* Adds the headers that streams and other replies may contain. `match` is NULL for a stream. */
static void add_common_headers(struct MHD_Response *response, const struct reply *reply,
                               const struct route_match *match, const struct request *request)
{
    cors_headers(request, match && lists_methods(reply) ? match : NULL, add_header, response);
    if (request->ignored.list[0])
        MHD_add_response_header(response, "x-ignored-keys", request->ignored.list);
    MHD_add_response_header(response, "x-request-id", request->id.text);
    if (reply->close)
        MHD_add_response_header(response, "Connection", "close");
}

/* Whether the same request may succeed later. Such a reply contains the header Retry-After. */
static bool says_later(const struct reply *reply)
{
    return reply->status == MHD_HTTP_TOO_MANY_REQUESTS || reply->status == MHD_HTTP_SERVICE_UNAVAILABLE;
}

static int64_t later_s(const struct reply *reply)
{
    return reply->retry_after_s > 0 ? reply->retry_after_s : 1;
}

static void add_headers_of_route(struct MHD_Response *response, const struct answer_header *header)
{
    for (; header && header->name; header++)
        MHD_add_response_header(response, header->name, header->value);
}

static void add_headers(struct MHD_Response *response, const struct reply *reply, const struct route_match *match,
                        const struct request *request)
{
    if (!lists_methods(reply) && reply->status != MHD_HTTP_NOT_MODIFIED)
        MHD_add_response_header(response, "Content-Type", request->answer_type);
    if (reply->status == MHD_HTTP_OK || reply->status == MHD_HTTP_NOT_MODIFIED)
        add_headers_of_route(response, request->answer_headers);
    if (reply->status == MHD_HTTP_OK && request->answer_encoding)
        MHD_add_response_header(response, "Content-Encoding", request->answer_encoding);
    if (reply->status == MHD_HTTP_OK && request->answer_json_bytes > 0)
        add_number(response, "Inference-Header-Content-Length", (int64_t)request->answer_json_bytes);
    if (reply->status == MHD_HTTP_OK && match->route->work)
        add_times(response, reply, &request->job);
    if (reply->status == MHD_HTTP_METHOD_NOT_ALLOWED || lists_methods(reply))
        MHD_add_response_header(response, "Allow", match->allow);
    if (reply->status == MHD_HTTP_UNAUTHORIZED)
        MHD_add_response_header(response, "WWW-Authenticate", "Bearer");
    if (says_later(reply))
        add_number(response, "Retry-After", later_s(reply));
    add_common_headers(response, reply, match, request);
}

enum MHD_Result reply_send(struct reply *reply, struct MHD_Connection *connection, const struct route_match *match,
                           struct request *request)
{
    write_failure(reply, match, request);
    struct MHD_Response *response = NULL;
    reply->bytes = (int64_t)request->answer.length;
    if (request->answer.failed) {
        const char *text = match->dialect->out_of_memory;
        reply->bytes = (int64_t)strlen(text);
        response = MHD_create_response_from_buffer(strlen(text), (void *)text, MHD_RESPMEM_PERSISTENT);
    } else {
        response = MHD_create_response_from_buffer(request->answer.length, request->answer.data, MHD_RESPMEM_MUST_FREE);
        if (response)
            request->answer = (struct writer){0}; /* the response owns the data now */
    }
    if (!response)
        return MHD_NO;
    add_headers(response, reply, match, request);
    enum MHD_Result result = MHD_queue_response(connection, (unsigned int)reply->status, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result reply_stream(struct reply *reply, struct MHD_Connection *connection, const struct request *request,
                             MHD_ContentReaderCallback read, void *context)
{
    struct MHD_Response *response =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, read, context, NULL);
    if (!response)
        return MHD_NO;
    reply->status = MHD_HTTP_OK;
    MHD_add_response_header(response, "Content-Type", "text/event-stream");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    MHD_add_response_header(response, "X-Accel-Buffering", "no"); /* without this header, nginx delays events */
    add_common_headers(response, reply, NULL, request);
    enum MHD_Result result = MHD_queue_response(connection, (unsigned int)reply->status, response);
    MHD_destroy_response(response);
    return result;
}

static void write_header(void *text, const char *name, const char *value)
{
    writer_format(text, "%s: %s\r\n", name, value);
}

/* Sends bytes directly to the socket, not through libmicrohttpd. Bytes that do not fit into the socket's buffer are
 * lost. */
static void send_raw(struct MHD_Connection *connection, const struct writer *text)
{
    int descriptor = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    if (tls_encrypts(connection))
        tls_send(connection, text->data, text->length);
    else
        (void)!send(descriptor, text->data, text->length, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void reply_send_raw(struct reply *reply, struct MHD_Connection *connection, const struct route_match *match,
                    struct request *request)
{
    struct writer text = {0};
    const struct writer *answer = &request->answer;
    write_failure(reply, match, request);
    writer_format(&text,
                  "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nx-request-id: %s\r\n"
                  "Connection: close\r\n",
                  reply->status, MHD_get_reason_phrase_for((unsigned int)reply->status), request->answer_type,
                  answer->length, request->id.text);
    if (says_later(reply))
        writer_format(&text, "Retry-After: %lld\r\n", (long long)later_s(reply));
    cors_headers(request, NULL, write_header, &text);
    writer_text(&text, "\r\n");
    writer_bytes(&text, answer->data, answer->length);
    /* These few hundred bytes fit in the socket's buffer, unless the client has not read its earlier answers. */
    reply->bytes = (int64_t)answer->length;
    if (!text.failed && !answer->failed)
        send_raw(connection, &text);
    writer_free(&text);
}
