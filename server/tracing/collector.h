/* collector: sends bodies to OpenTelemetry's collector, a server that receives spans. Only one thread at a time may use
 * a struct collector. */
#ifndef SERVER_TRACING_COLLECTOR_H
#define SERVER_TRACING_COLLECTOR_H

#include "server/tracing/options.h"

#include <stdatomic.h>

struct collector;

#define COLLECTOR_ANSWER_BYTES 4096

enum collector_outcome {
    COLLECTOR_TOOK,
    COLLECTOR_LATER,   /* sending the same body later may succeed */
    COLLECTOR_REFUSED, /* sending the same body later will also fail */
};

struct collector_answer {
    enum collector_outcome outcome;
    char reason[512];      /* why the collector did not accept the body */
    int64_t retry_after_s; /* seconds that the collector asks the client to wait before the next attempt. 0 if it does
                              not ask */
    char body[COLLECTOR_ANSWER_BYTES]; /* the first bytes of the answer */
    size_t length;
};

/* Loads libcurl, but does not connect yet. `options` must outlive the collector. *end_ns is a time of CLOCK_MONOTONIC,
 * or 0 for no limit. A request that is still in progress at this time is aborted at most a second later. */
int collector_open(const struct tracing_options *options, const _Atomic int64_t *end_ns, struct collector **collector,
                   struct error *error);
void collector_close(struct collector *collector); /* NULL does nothing */

/* Posts a JSON body, and waits for the answer, but at most for the timeout of the options. */
void collector_send(struct collector *collector, const char *json, size_t length, struct collector_answer *answer);

#endif
