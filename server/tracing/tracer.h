/* tracer: sends spans of requests to OpenTelemetry's collector. The tracer's thread sends them in batches. No caller
 * waits for the collector. Finished spans wait in a queue of a fixed size. Spans that find no room are dropped and
 * counted.
 *
 * A tracer is NULL if tracing is off. All functions accept NULL, and then do nothing. */
#ifndef SERVER_TRACING_TRACER_H
#define SERVER_TRACING_TRACER_H

#include "config/config.h"
#include "server/tracing/span.h"

struct tracer;

/* *tracer becomes NULL if neither `endpoint` nor a variable of the environment names a collector. `endpoint` is the
 * setting, or NULL. Reads the environment (options.h), loads libcurl and starts the thread, but does not connect yet.
 */
int tracer_open(const char *endpoint, struct tracer **tracer, struct error *error);

/* Sends the spans that still wait, but takes at most about two seconds for this. */
void tracer_close(struct tracer *tracer);

/* The place of one request in its trace. All zero: the request is not traced. */
struct trace {
    bool sampled;
    bool has_parent;
    unsigned char trace_id[TRACE_ID_BYTES];
    unsigned char parent_id[SPAN_ID_BYTES];
};

/* Decides whether the request is traced. `parent` is NULL if the request begins a trace. Any thread may call it. */
void tracer_begin(struct tracer *tracer, const struct trace_context *parent, struct trace *trace);

/* Queues the span of a request with trace.sampled. Sets the ids of the span. Its times must be of CLOCK_MONOTONIC, and
 * this function converts them. Any thread may call it. */
void tracer_end(struct tracer *tracer, const struct trace *trace, struct request_span *span);

struct tracer_counts {
    int64_t sent;    /* spans that the collector took */
    int64_t dropped; /* spans that it refused, that could not be sent, or that found no room in the queue */
};
struct tracer_counts tracer_counts(const struct tracer *tracer);

#endif
