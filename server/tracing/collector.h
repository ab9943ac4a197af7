/* collector: sends bodies to OpenTelemetry's collector. Only one thread at a time may use a collector. */
#ifndef SERVER_TRACING_COLLECTOR_H
#define SERVER_TRACING_COLLECTOR_H

#include "server/tracing/options.h"

#include <stdatomic.h>

struct collector;

#define COLLECTOR_ANSWER_BYTES 4096

enum collector_outcome {
    COLLECTOR_TOOK,
    COLLECTOR_LATER,   /* the same body may succeed later */
    COLLECTOR_REFUSED, /* the same body will not succeed later either */
};

struct collector_answer {
    enum collector_outcome outcome;
    char reason[512];                  /* why the collector did not take the body */
    int64_t retry_after_s;             /* seconds that the collector asks to wait before the next attempt. 0: it does
                                          not ask */
    char body[COLLECTOR_ANSWER_BYTES]; /* the first bytes of the answer */
    size_t length;
};

/* Loads libcurl, and does not connect yet. `options` must outlive the collector. *end_ns is a time of CLOCK_MONOTONIC,
 * or 0 for no time. A request that is still under way at this time is broken off at most a second later. */
int collector_open(const struct tracing_options *options, const _Atomic int64_t *end_ns, struct collector **collector,
                   struct error *error);
void collector_close(struct collector *collector); /* NULL does nothing */

/* Posts a body of JSON, and waits for the answer, but not longer than the timeout of the options. */
void collector_send(struct collector *collector, const char *json, size_t length, struct collector_answer *answer);

#endif
