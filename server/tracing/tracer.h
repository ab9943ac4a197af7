/* tracer: sends spans of requests to OpenTelemetry's collector. The tracer's thread sends them in batches. No caller
 * waits for the collector. Finished spans wait in a queue of a fixed size. If the queue is full, spans are dropped and
 * counted.
 *
 * The pointer to the tracer is NULL if tracing is off. All functions accept NULL, and then trace nothing. */
#ifndef SERVER_TRACING_TRACER_H
#define SERVER_TRACING_TRACER_H

#include "config/config.h"
#include "server/tracing/span.h"

struct tracer;

/* Reads the environment (options.h), loads libcurl and starts the thread, but does not connect yet. `endpoint` is the
 * setting --otlp-endpoint, or NULL. Sets *tracer to NULL if neither `endpoint` nor an environment variable names a
 * collector, or if the environment switches tracing off. */
int tracer_open(const char *endpoint, struct tracer **tracer, struct error *error);

/* Sends the spans that still wait, but for at most about two seconds. */
void tracer_close(struct tracer *tracer);

/* The position of one request in its trace. A zeroed struct means that the request is not traced. */
struct trace {
    bool sampled;
    bool has_parent;
    unsigned char trace_id[TRACE_ID_BYTES];
    unsigned char parent_id[SPAN_ID_BYTES];
};

/* Decides whether the request is traced. `parent` is NULL if the request begins a trace. Any thread may call
 * tracer_begin. */
void tracer_begin(struct tracer *tracer, const struct trace_context *parent, struct trace *trace);

/* Queues the span of a request for which trace.sampled is true. Sets the ids of the span. The times of the span must be
 * times of CLOCK_MONOTONIC, which this function converts. Any thread may call tracer_end. */
void tracer_end(struct tracer *tracer, const struct trace *trace, struct request_span *span);

struct tracer_counts {
    int64_t sent;    /* number of spans that the collector has accepted */
    int64_t dropped; /* number of spans that the collector has rejected, that could not be sent, or that did not fit in
                        the queue */
};
struct tracer_counts tracer_counts(const struct tracer *tracer);

#endif
