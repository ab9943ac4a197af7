/* span: what is sent to the collector about one request. */
#ifndef SERVER_TRACING_SPAN_H
#define SERVER_TRACING_SPAN_H

#include "server/tracing/trace_context.h"

#include <stdint.h>

#define SPAN_PATH_BYTES 256
#define SPAN_NAME_BYTES 128 /* of other strings */

/* The span of a request, with the spans of its queue and its inference as children. Times are in nanoseconds since
 * 1970. Strings that are too long are cut. */
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
    char model[SPAN_NAME_BYTES]; /* "" if the request reached no model */
    char key[SPAN_NAME_BYTES];   /* the name of the API key. "" if there is none */
    bool encrypted;              /* by TLS */
    int status;
    int64_t answer_bytes;
    int64_t begun_ns, ended_ns;

    /* The next three are times, or 0 if the request did not get so far. */
    int64_t queued_ns;  /* it entered the queue */
    int64_t started_ns; /* its first batch began, or if none did, the job ended. The queue's span ends here */
    int64_t finished_ns;
    bool computed; /* a batch ran, so the inference has a span */
    int64_t items, tokens;
    int64_t batches, batch_items; /* number of batches with its items, and items of the largest of them */
    int64_t inference_ns;         /* sum of the times of these batches */
};

/* Number of spans that the request makes. */
int request_span_count(const struct request_span *span);

#endif
