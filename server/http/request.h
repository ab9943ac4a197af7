/* request: one HTTP request as its route sees it. It contains no sockets, so the functions of a route can also run in
 * tests, in the fuzzer, and on any thread.
 *
 *     request_open -> request_begin -> the route's `read` -> (the job runs -> the route's `answer`) -> request_close
 *
 * Only one thread at a time may use a request. Memory from request_memory lives until request_answered or
 * request_close. */
#ifndef SERVER_REQUEST_H
#define SERVER_REQUEST_H

#include "server/common/budget.h"
#include "server/common/failure.h"
#include "server/http/keys.h"
#include "server/http/request_id.h"
#include "server/http/service.h"
#include "server/jobs/batcher.h"
#include "server/text/json_body.h"
#include "server/text/writer.h"

#include <jansson.h>

#define REQUEST_PARAMETERS 2
#define REQUEST_PARAMETER_BYTES 256

/* A header that a route adds to its answer. Both strings outlive the request. */
struct answer_header {
    const char *name, *value;
};

struct request {
    struct service *service;
    struct request_id id;
    char key_name[KEY_NAME_BYTES]; /* the name of the request's API key. Empty if the key has no name, or if there is no
                                      key */
    const char *body;              /* borrowed, without a final NUL */
    size_t body_length;
    bool body_kept; /* `read` sets it if items point into the body. Then the body must stay until request_close */
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES]; /* the segment of the path for each {} of the route */
    /* Returns the value of a header. NULL if it was not sent. */
    const char *(*header)(const struct request *request, const char *name);
    /* Returns the value of a key in the query of the URL, decoded. It may be invalid UTF-8. "" if the key has no value.
     * NULL if the query lacks the key. */
    const char *(*query)(const struct request *request, const char *name);

    struct job job; /* `read` sets the items. The caller of batcher_submit sets the other members */
    struct model_set
        *set;            /* the models that the request may use. NULL before request_begin and after request_answered */
    int64_t model_index; /* the requested model in `set` */
    const struct model_info *info; /* describes the requested model. NULL if no model was found yet */
    int64_t batcher_index;         /* the requested model's index in the batcher */
    int64_t metrics;               /* the requested model's index in the metrics. METRICS_NO_MODEL if no model was found
                                      yet */
    void *options;                 /* data that only the route uses, from request_memory */
    int64_t answer_bytes;          /* an estimate of the answer's length */
    struct share memory;           /* share of the budget service->results */
    int64_t json_bytes; /* the part of `memory` that the JSON values of the body use, until request_read_done */
    struct ignored_keys ignored; /* unknown keys of the body */

    struct writer answer;
    const char *answer_type;     /* for Content-Type. A string constant */
    const char *answer_encoding; /* for Content-Encoding. A string constant, or NULL */
    size_t answer_json_bytes;    /* bytes of JSON before the binary data of the answer. 0 if there is no binary data */
    const struct answer_header *answer_headers; /* more headers, ended by a name that is NULL. NULL if there are none */
    bool unchanged; /* the client already has the answer. The status is 304, and `answer` must be empty */
    struct failure failure;
    /* Set by the `read` of a route whose requests may need several jobs. Otherwise NULL. The function is called on a
     * lane's thread after each job that did not fail, so it must be quick. It returns true if it has set the items of
     * the request's next job. */
    bool (*next)(struct request *request);
    bool streamed; /* set by `read`: the answer is streamed. The text that `next` and the route's `answer` write to
                      `answer` is sent at once */
    /* Gives back what the route holds besides memory, such as slots. request_answered or request_close calls it once.
     * NULL if there is nothing to give back. */
    void (*leave)(struct request *request);
    void *blocks; /* the memory blocks of request_memory */
};

/* Initialises the struct, without parsing the body. The caller keeps `body`. */
void request_open(struct request *request, struct service *service, const char *body, size_t body_length);
void request_close(struct request *request);

/* Acquires the current set of models. Call it before `read`, when the body is complete. So a client that sends its body
 * slowly does not keep a former set. */
void request_begin(struct request *request);

/* Allocates zeroed memory for `count` values of `size` bytes. On failure sets request->failure and returns NULL. */
void *request_memory(struct request *request, int64_t count, size_t size);

/* Takes bytes from the budget service->results. Call it before allocating inputs, results or the answer. On failure
 * sets request->failure and returns -1. */
int request_charge(struct request *request, int64_t bytes);

/* request_charge, then request_memory. On failure sets request->failure and returns NULL. */
void *request_take(struct request *request, int64_t count, size_t size);

/* Parses `length` bytes of text with json_body_parse. First takes the memory of the JSON values from the budget. The
 * limit on this memory is 5 times --payload-limit, or 64 MiB if this is more. The limit is never above what the budget
 * allows for one request. Returns a new reference, which the caller must drop before request_read_done. On failure sets
 * request->failure and returns NULL. */
json_t *request_json(struct request *request, const char *text, size_t length);

/* Like request_json, but with json_body_parse_list, for a list in the body. */
json_t *request_json_list(struct request *request, const char *text, size_t length);

/* Calls json_body_options for the request's body, or for an object in it. On failure sets request->failure and returns
 * -1. */
int request_options(struct request *request, const json_t *json, const struct option *table, size_t count, void *out);

/* Call it after `read`, when the JSON values are freed. Returns their memory to the budget. */
void request_read_done(struct request *request);

/* Call it after `answer`. Releases the set of models, and frees all memory except the answer, because a client may read
 * its answer slowly. Afterwards only the answer, the failure, and the job's times and counts are valid. */
void request_answered(struct request *request);

/* Sets model_index, info, batcher_index and metrics for the model `name`, or for the first model if `name` is NULL. On
 * failure sets request->failure and returns -1. */
int request_model(struct request *request, const char *name);

/* For a request that names no model: sets the same members for the first model that `fits`. Changes nothing if
 * there is none. */
void request_first_model(struct request *request, bool (*fits)(const struct model_info *info));
const struct model *request_engine_model(const struct request *request);
const char *request_model_name(const struct request *request);

/* The default of the request's key `truncate`, which tells whether inputs that are too long are cut. */
bool request_auto_truncate(const struct request *request);

#endif
