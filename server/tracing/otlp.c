/* otlp: writes spans as OTLP's JSON, in which ids are hexadecimal digits, and 64-bit integers are strings. Attributes
 * of spans have the names of OpenTelemetry's semantic conventions for HTTP and generative AI, or names that begin with
 * "linformerd.". */
#include "server/tracing/otlp.h"

#include "config/config.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };
enum { STATUS_ERROR = 2 };

int request_span_count(const struct request_span *span)
{
    return 1 + (span->queued_ns > 0) + span->computed;
}

/* ---- Attributes ---- */

/* A list of attributes that is being written. */
struct attributes {
    struct writer *writer;
    const char *separator;
};

static struct attributes attributes_begin(struct writer *writer)
{
    writer_text(writer, "\"attributes\":[");
    return (struct attributes){writer, ""};
}

static void attribute_begin(struct attributes *attributes, const char *key)
{
    writer_text(attributes->writer, attributes->separator);
    writer_text(attributes->writer, "{\"key\":");
    writer_string0(attributes->writer, key);
    writer_text(attributes->writer, ",\"value\":{");
    attributes->separator = ",";
}

/* Adds a text attribute, unless the value is empty. */
static void add_text(struct attributes *attributes, const char *key, const char *value)
{
    if (!*value)
        return;
    attribute_begin(attributes, key);
    writer_text(attributes->writer, "\"stringValue\":");
    writer_string0(attributes->writer, value);
    writer_text(attributes->writer, "}}");
}

static void add_integer(struct attributes *attributes, const char *key, int64_t value)
{
    attribute_begin(attributes, key);
    writer_format(attributes->writer, "\"intValue\":\"%lld\"}}", (long long)value);
}

static void add_decimal(struct attributes *attributes, const char *key, double value)
{
    attribute_begin(attributes, key);
    writer_format(attributes->writer, "\"doubleValue\":%.6f}}", value);
}

/* ---- Spans ---- */

struct span_time {
    int64_t begin_ns, end_ns;
};

/* Writes the members of a span that come before its attributes. `parent` is NULL for the first span of a trace. */
static void span_begin(struct writer *writer, const struct request_span *request, const unsigned char *id,
                       const unsigned char *parent, const char *name, int kind, struct span_time time)
{
    char trace[2 * TRACE_ID_BYTES + 1], span[2 * SPAN_ID_BYTES + 1];
    trace_digits(trace, request->trace_id, TRACE_ID_BYTES);
    trace_digits(span, id, SPAN_ID_BYTES);
    writer_format(writer, "{\"traceId\":\"%s\",\"spanId\":\"%s\",", trace, span);
    if (parent) {
        trace_digits(span, parent, SPAN_ID_BYTES);
        writer_format(writer, "\"parentSpanId\":\"%s\",", span);
    }
    writer_text(writer, "\"name\":");
    writer_string0(writer, name);
    writer_format(writer, ",\"kind\":%d,\"startTimeUnixNano\":\"%lld\",\"endTimeUnixNano\":\"%lld\",", kind,
                  (long long)time.begin_ns, (long long)(time.end_ns > time.begin_ns ? time.end_ns : time.begin_ns));
}

/* Returns the method if the conventions list it, otherwise NULL. Spans contain _OTHER for all other methods, as the
 * conventions require, so that clients cannot invent values. */
static const char *known_method(const char *method)
{
    static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(method, known[i]) == 0)
            return known[i];
    return NULL;
}

/* Adds the address and the port of a client such as "192.0.2.1:40000" or "[2001:db8::1]:40000". */
static void add_client(struct attributes *attributes, const char *client)
{
    char address[SPAN_NAME_BYTES];
    bool brackets = client[0] == '[';
    const char *end = strrchr(client, brackets ? ']' : ':');
    size_t length = end ? (size_t)(end - client) - brackets : strlen(client);
    memcpy(address, client + brackets, length);
    address[length] = '\0';
    add_text(attributes, "client.address", address);
    if (end && strchr(end, ':'))
        add_integer(attributes, "client.port", atoi(strchr(end, ':') + 1));
}

static void write_request(struct writer *writer, const struct request_span *request)
{
    const char *method = known_method(request->method);
    char name[sizeof request->method + 1 + sizeof request->route];
    snprintf(name, sizeof name, "%s%s%s", method ? method : "HTTP", *request->route ? " " : "", request->route);
    span_begin(writer, request, request->span_id, request->has_parent ? request->parent_id : NULL, name, KIND_SERVER,
               (struct span_time){request->begun_ns, request->ended_ns});
    struct attributes attributes = attributes_begin(writer);
    add_text(&attributes, "http.request.method", method ? method : "_OTHER");
    if (!method)
        add_text(&attributes, "http.request.method_original", request->method);
    add_text(&attributes, "url.path", request->path);
    add_text(&attributes, "url.scheme", request->encrypted ? "https" : "http");
    add_text(&attributes, "http.route", request->route);
    add_integer(&attributes, "http.response.status_code", request->status);
    add_integer(&attributes, "http.response.body.size", request->answer_bytes);
    add_client(&attributes, request->client);
    add_text(&attributes, "user_agent.original", request->agent);
    add_text(&attributes, "linformerd.request_id", request->request_id);
    add_text(&attributes, "linformerd.key", request->key);
    add_text(&attributes, "gen_ai.request.model", request->model);
    if (request->status >= 500) {
        char status[16];
        snprintf(status, sizeof status, "%d", request->status);
        add_text(&attributes, "error.type", status);
        writer_format(writer, "],\"status\":{\"code\":%d}}", STATUS_ERROR);
    } else {
        writer_text(writer, "],\"status\":{}}");
    }
}

static void write_queue(struct writer *writer, const struct request_span *request)
{
    writer_text(writer, ",");
    span_begin(writer, request, request->queue_id, request->span_id, "queue", KIND_INTERNAL,
               (struct span_time){request->queued_ns, request->started_ns});
    struct attributes attributes = attributes_begin(writer);
    add_text(&attributes, "gen_ai.request.model", request->model);
    add_integer(&attributes, "linformerd.items", request->items);
    writer_text(writer, "],\"status\":{}}");
}

static void write_inference(struct writer *writer, const struct request_span *request)
{
    writer_text(writer, ",");
    span_begin(writer, request, request->inference_id, request->span_id, "inference", KIND_INTERNAL,
               (struct span_time){request->started_ns, request->finished_ns});
    struct attributes attributes = attributes_begin(writer);
    add_text(&attributes, "gen_ai.request.model", request->model);
    add_integer(&attributes, "linformerd.items", request->items);
    add_integer(&attributes, "linformerd.tokens", request->tokens);
    add_integer(&attributes, "linformerd.batches", request->batches);
    add_integer(&attributes, "linformerd.batch.items", request->batch_items);
    add_decimal(&attributes, "linformerd.batch.seconds", (double)request->inference_ns / 1e9);
    writer_text(writer, "],\"status\":{}}");
}

static void write_spans(struct writer *writer, const struct request_span *request)
{
    write_request(writer, request);
    if (request->queued_ns > 0)
        write_queue(writer, request);
    if (request->computed)
        write_inference(writer, request);
}

static bool has_attribute(const struct tracing_options *options, const char *key)
{
    for (int i = 0; i < options->n_attributes; i++)
        if (strcmp(options->attributes[i].key, key) == 0)
            return true;
    return false;
}

static void write_resource(struct writer *writer, const struct tracing_options *options)
{
    writer_text(writer, "\"resource\":{");
    struct attributes attributes = attributes_begin(writer);
    add_text(&attributes, "service.name", options->service_name);
    if (!has_attribute(options, "service.version"))
        add_text(&attributes, "service.version", LINFORMERD_VERSION);
    for (int i = 0; i < options->n_attributes; i++)
        add_text(&attributes, options->attributes[i].key, options->attributes[i].value);
    writer_text(writer, "]}");
}

void otlp_write(struct writer *writer, const struct tracing_options *options, const struct request_span *spans,
                int64_t count)
{
    writer_text(writer, "{\"resourceSpans\":[{");
    write_resource(writer, options);
    writer_text(writer, ",\"scopeSpans\":[{\"scope\":{\"name\":\"linformerd\",\"version\":\"" LINFORMERD_VERSION
                        "\"},\"spans\":[");
    for (int64_t i = 0; i < count; i++) {
        writer_text(writer, i > 0 ? "," : "");
        write_spans(writer, &spans[i]);
    }
    writer_text(writer, "]}]}]}");
}

/* ---- The answer ---- */

int64_t otlp_rejected(const char *body, size_t length, int64_t sent)
{
    json_t *answer = json_loadb(body, length, 0, NULL);
    const json_t *rejected = json_object_get(json_object_get(answer, "partialSuccess"), "rejectedSpans");
    int64_t count = json_is_string(rejected) ? strtoll(json_string_value(rejected), NULL, 10)
                                             : (int64_t)json_integer_value(rejected);
    json_decref(answer);
    return count < 0 ? 0 : count > sent ? sent : count;
}
