/* record: writes the record of an answered request: its metrics, its line in the log, and its span. */
#ifndef SERVER_HTTP_RECORD_H
#define SERVER_HTTP_RECORD_H

#include "server/http/peer.h"
#include "server/http/request.h"
#include "server/tracing/tracer.h"

#include <stdbool.h>

/* Data from the headers that are needed when the request is answered. The members from `method` on are set only if the
 * request is logged or traced. */
struct record {
    int64_t begun_ns; /* CLOCK_MONOTONIC, in nanoseconds: the time at which the headers had arrived */
    bool logged;
    struct trace trace;
    char method[16];
    char *path; /* at most 256 bytes. NULL if memory is lacking */
    char
        *agent; /* the header User-Agent, at most 128 bytes. NULL if it was not sent, or if the request is not traced */
    char client[PEER_TEXT_BYTES];
};

/* Call it when the headers have arrived. Sets the id of the request. `method` and `path` are copied. `address` may be
 * NULL. record_end must follow. */
void record_begin(struct record *record, struct request *request, const char *method, const char *path,
                  const struct sockaddr *address);

struct record_answer {
    const char *route;   /* the path in the table of routes. It must outlive the metrics. NULL if no route matches */
    bool infers;         /* the route returns results of a model (WORK_INFERENCE) */
    int64_t complete_ns; /* CLOCK_MONOTONIC, in nanoseconds: the time at which the body was complete */
    int status;
    int64_t bytes; /* length of the answer's body. For a streamed answer, the number of bytes that were sent */
};

/* Counts the request in the metrics, writes its log line, queues its span, and frees the record. */
void record_end(struct record *record, const struct request *request, const struct record_answer *answer);

#endif
