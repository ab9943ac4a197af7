/* request: what a route sees of one HTTP request. It knows nothing of sockets, so that decoders run in tests and under
 * the fuzzer, and on whichever thread has time.
 *
 * Lifetime: request_open, then the route's `read`, perhaps a run of the job, then its `answer`, request_close. One
 * thread at a time. Memory from request_memory lives until request_close. */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "server/common/budget.h"
#include "server/common/failure.h"
#include "server/http/request_id.h"
#include "server/http/service.h"
#include "server/jobs/batcher.h"
#include "server/text/json_body.h"
#include "server/text/writer.h"

#include <jansson.h>

#define REQUEST_PARAMETERS 2
#define REQUEST_PARAMETER_BYTES 256

struct request {
    struct service *service;
    struct request_id id;
    const char *body; /* the exchange's; not terminated */
    size_t body_length;
    bool body_kept; /* set by `read` when items point into the body: it stays until request_close */
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES]; /* what stood for each {} in the route's path */
    const char *(*header)(const struct request *request, const char *name); /* NULL: not sent */

    struct job job; /* items are set by `read`; the rest by whoever submits */
    int64_t model_index;
    const struct model_info *info; /* of the model that the request named */
    void *options;                 /* the route's own, in request memory */
    int64_t answer_bytes;          /* about how long the answer will be */
    struct share memory;           /* of service->results */
    int64_t json_bytes;            /* of it, for the JSON of the body until request_read_done */
    struct ignored_keys ignored;   /* of the body */

    struct writer answer;
    const char *answer_type;     /* a media type that lives for ever */
    const char *answer_encoding; /* Content-Encoding, likewise; NULL: none */
    size_t answer_header;        /* bytes of JSON before the answer's binary data; 0: it has none */
    struct failure failure;
    void *blocks;
};

/* Parses nothing yet. `body` stays the caller's. */
void request_open(struct request *request, struct service *service, const char *body, size_t body_length);
void request_close(struct request *request);

/* Zeroed memory for count values of `size` bytes. NULL: request->failure says so. */
void *request_memory(struct request *request, int64_t count, size_t size);

/* Counts bytes of inputs, results and answer towards the bound on them, before they are allocated. -1:
 * request->failure. */
int request_charge(struct request *request, int64_t bytes);

/* json_body_parse of `length` bytes of text, once the memory that it may take has been counted: at most 16 times
 * --payload-limit, or 64 MiB where that is more. A new reference, to be given up before request_read_done. NULL:
 * request->failure. */
json_t *request_json(struct request *request, const char *text, size_t length);

/* json_body_options of the request's body, or of an object in it. -1: request->failure. */
int request_options(struct request *request, const json_t *json, const struct option *table, size_t count, void *out);

/* After `read`: the JSON is gone, and so is what was counted for it. */
void request_read_done(struct request *request);

/* After `answer`: all memory goes but the answer's, which may be read slowly. Only the answer, the failure and the
 * job's times and counts may be looked at from now on. */
void request_answered(struct request *request);

/* Sets model_index and info; NULL: the first model. -1: no model has that name. */
int request_model(struct request *request, const char *name);
const struct model *request_engine_model(const struct request *request);
const char *request_model_name(const struct request *request);

/* Whether inputs of the model are cut where the request does not say. */
bool request_auto_truncate(const struct request *request);

#endif
