/* span: the data that are sent to the collector about one request. */
#ifndef SERVER_TRACING_SPAN_H
#define SERVER_TRACING_SPAN_H

#include "server/tracing/trace_context.h"

#include <stdint.h>

#define SPAN_PATH_BYTES 256
#define SPAN_NAME_BYTES 128 /* limit for all strings except path and method */

/* The data of a request's span, and of its two child spans for the queue and the inference. Times are in nanoseconds
 * since 1970. Strings that are too long are cut. */
struct request_span {
    unsigned char trace_id[TRACE_ID_BYTES];
    unsigned char span_id[SPAN_ID_BYTES], queue_id[SPAN_ID_BYTES], inference_id[SPAN_ID_BYTES];
    unsigned char parent_id[SPAN_ID_BYTES];
    bool has_parent;

    char method[16];
    char path[SPAN_PATH_BYTES];
    char route[SPAN_NAME_BYTES]; /* the path in the table of routes. "" if there is no such route */
    char client[SPAN_NAME_BYTES];
    char agent[SPAN_NAME_BYTES]; /* the header User-Agent. "" if it was not sent */
    char request_id[SPAN_NAME_BYTES + 1];
    char model[SPAN_NAME_BYTES]; /* name of the model. "" if the request chose no model */
    char key[SPAN_NAME_BYTES];   /* the name of the API key. "" if there is none */
    bool encrypted;              /* the connection uses TLS */
    int status;
    int64_t answer_bytes;
    int64_t begun_ns, ended_ns;

    /* The next three members are times, or 0 if the request ended before. */
    int64_t queued_ns;  /* time at which the request entered the queue */
    int64_t started_ns; /* start of its first batch, or the end of its job if it had no batch. The queue's span ends at
                           this time */
    int64_t finished_ns;
    bool computed; /* a batch has run, so there is a span for the inference */
    int64_t items, tokens;
    int64_t batches, batch_items; /* number of batches with items of the request, and number of items in the largest of
                                     these batches */
    int64_t inference_ns;         /* sum of the times of these batches */
};

/* Returns the number of spans that are sent for the request. */
int request_span_count(const struct request_span *span);

#endif
