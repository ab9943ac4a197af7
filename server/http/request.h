/* request: one HTTP request as its route sees it. It has no sockets, so a route's functions also run in tests, under
 * the fuzzer, and on any thread.
 *
 *     request_open -> the route's `read` -> (the job runs -> the route's `answer`) -> request_close
 *
 * One thread at a time. Memory from request_memory lives until request_answered or request_close. */
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
    const char *body; /* borrowed; not terminated */
    size_t body_length;
    bool body_kept; /* `read` sets it if items point into the body: the body then stays until request_close */
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES]; /* the path's segments for each {} of the route */
    const char *(*header)(const struct request *request, const char *name); /* the header's value; NULL: not sent */

    struct job job; /* `read` sets the items, and the caller of batcher_submit the rest */
    int64_t model_index;
    const struct model_info *info; /* of the model that the request named */
    void *options;                 /* the route's own data, from request_memory */
    int64_t answer_bytes;          /* an estimate of the answer's length */
    struct share memory;           /* of service->results */
    int64_t json_bytes;            /* the part of `memory` for the body's JSON, until request_read_done */
    struct ignored_keys ignored;   /* keys of the body without a meaning */

    struct writer answer;
    const char *answer_type;     /* Content-Type; a string constant */
    const char *answer_encoding; /* Content-Encoding; a string constant. NULL: none */
    size_t answer_header;        /* bytes of JSON before the answer's binary data; 0: it has no such data */
    struct failure failure;
    void *blocks; /* of request_memory */
};

/* Sets up the struct; the body is not parsed. `body` stays the caller's. */
void request_open(struct request *request, struct service *service, const char *body, size_t body_length);
void request_close(struct request *request);

/* Zeroed memory for `count` values of `size` bytes. NULL: request->failure. */
void *request_memory(struct request *request, int64_t count, size_t size);

/* Takes bytes from the budget of service->results, before inputs, results or the answer are allocated. -1:
 * request->failure. */
int request_charge(struct request *request, int64_t bytes);

/* Parses `length` bytes of text with json_body_parse, after it has taken the memory of the JSON values from the budget.
 * These may take 5 times --payload-limit at most, or 64 MiB if that is more. Returns a new reference, which the caller
 * drops before request_read_done. NULL: request->failure. */
json_t *request_json(struct request *request, const char *text, size_t length);

/* The same with json_body_parse_list, for a list that stands in the body. */
json_t *request_json_list(struct request *request, const char *text, size_t length);

/* json_body_options of the request's body, or of an object in it. -1: request->failure. */
int request_options(struct request *request, const json_t *json, const struct option *table, size_t count, void *out);

/* To be called after `read`, when the JSON values are freed: gives their memory back to the budget. */
void request_read_done(struct request *request);

/* To be called after `answer`: frees all memory but the answer's, because a client may read its answer slowly.
 * Afterwards only the answer, the failure, and the job's times and counts are valid. */
void request_answered(struct request *request);

/* Sets model_index and info for the model `name`; NULL: the first model. -1: request->failure. */
int request_model(struct request *request, const char *name);
const struct model *request_engine_model(const struct request *request);
const char *request_model_name(const struct request *request);

/* The default of the request's `truncate`: whether inputs that are too long are cut. */
bool request_auto_truncate(const struct request *request);

#endif
