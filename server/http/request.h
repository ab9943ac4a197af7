/* request: one HTTP request as seen by its route. The struct contains no sockets, so the functions of a route can also
 * run in tests, in the fuzzer, and on any thread.
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

/* A header that a route adds to its answer. Both strings must outlive the request. */
struct answer_header {
    const char *name, *value;
};

struct request {
    struct service *service;
    struct request_id id;
    char key_name[KEY_NAME_BYTES]; /* the name of the request's API key. Empty if the key has no name, or if there is no
                                      key */
    const char *body;              /* not owned by the request, and without a final NUL */
    size_t body_length;
    bool body_kept; /* the route's `read` sets it if items point into the body. The body must then stay unchanged until
                       request_close */
    /* For each {} in the path of the route, the segment that it matches. */
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES];
    /* Returns the value of a header. NULL if it was not sent. */
    const char *(*header)(const struct request *request, const char *name);
    /* Returns the value of a key in the query of the URL, decoded. It may be invalid UTF-8. "" if the key has no value.
     * NULL if the query lacks the key. */
    const char *(*query)(const struct request *request, const char *name);

    struct job job; /* the route's `read` sets its items. The caller of batcher_submit sets its other members */
    /* The set that contains the request's model. NULL before request_begin and after request_answered. */
    struct model_set *set;
    int64_t model_index;           /* index of the requested model in `set` */
    const struct model_info *info; /* description of the requested model. NULL if no model was found yet */
    int64_t batcher_index;         /* index of the requested model in the batcher */
    int64_t metrics;      /* index of the requested model in the metrics. METRICS_NO_MODEL if no model was found yet */
    void *options;        /* data that only the route uses. It is allocated with request_memory */
    int64_t answer_bytes; /* an estimate of the answer's length, in bytes */
    struct share memory;  /* the request's share of the budget service->results */
    int64_t json_bytes;   /* the part of `memory` that the JSON values of the body use, until request_read_done */
    struct ignored_keys ignored; /* keys of the body that the route does not know */

    struct writer answer;
    const char *answer_type;     /* the value of Content-Type. A string constant */
    const char *answer_encoding; /* the value of Content-Encoding. A string constant, or NULL */
    size_t answer_json_bytes;    /* number of JSON bytes before the binary data of the answer. 0 if the answer has no
                                    binary data */
    const struct answer_header *answer_headers; /* additional headers of the answer. The name of the last entry is NULL.
                                                   NULL if there are none */
    bool unchanged; /* the client already has the current answer. The status is then 304, and `answer` must be empty */
    struct failure failure;
    /* Set by `read` of a route whose requests may need several jobs. NULL for all other routes. After each job that did
     * not fail, a thread of the batcher calls this function, so it must be quick. It returns true if it has set the
     * items of the request's next job. */
    bool (*next)(struct request *request);
    bool streamed; /* set by `read`: the answer is streamed. What `next` and the route's `answer` write to `answer` is
                      sent at once */
    /* Gives back what the route holds besides memory, such as slots (server/generation). request_answered or
     * request_close calls it once. NULL if there is nothing to give back. */
    void (*release)(struct request *request);
    void *blocks; /* list of the memory blocks that request_memory has allocated */
};

/* Initialises the struct, without parsing the body. `body` still belongs to the caller. */
void request_open(struct request *request, struct service *service, const char *body, size_t body_length);
void request_close(struct request *request);

/* Acquires the current set of models. Call it before `read`, when the body is complete. So a client that sends its body
 * slowly does not keep a former set of models loaded. */
void request_begin(struct request *request);

/* Allocates zeroed memory for `count` values of `size` bytes. On failure sets request->failure and returns NULL. */
void *request_memory(struct request *request, int64_t count, size_t size);

/* Takes bytes from the budget service->results. Call it before allocating inputs, results or the answer. On failure
 * sets request->failure and returns -1. */
int request_charge(struct request *request, int64_t bytes);

/* Calls request_charge, then request_memory. On failure sets request->failure and returns NULL. */
void *request_take(struct request *request, int64_t count, size_t size);

/* Parses `length` bytes of text with json_body_parse, after taking the memory of the JSON values from the budget. The
 * limit on this memory is 5 times --payload-limit, but at least 64 MiB. It is never above what the budget allows for
 * one request. Returns a new reference, which the caller must drop before request_read_done. On failure sets
 * request->failure and returns NULL. */
json_t *request_json(struct request *request, const char *text, size_t length);

/* Like request_json, but with json_body_parse_list, for a list in the body. */
json_t *request_json_list(struct request *request, const char *text, size_t length);

/* Calls json_body_options for the request's body, or for the object `json` in the body. On failure sets
 * request->failure and returns -1. */
int request_options(struct request *request, const json_t *json, const struct option *table, size_t count, void *out);

/* Call it after `read`, when the JSON values are freed. Returns their memory to the budget. */
void request_read_done(struct request *request);

/* Call it after `answer`. Releases the set of models, and frees all memory except the answer, because a client may read
 * its answer slowly. Afterwards `set` and `info` are NULL, and pointers to memory of request_memory are invalid. */
void request_answered(struct request *request);

/* Sets model_index, info, batcher_index and metrics for the model `name`, or for the first model if `name` is NULL. On
 * failure sets request->failure and returns -1. */
int request_model(struct request *request, const char *name);

/* For a request that names no model: sets the same members as request_model, for the first model for which `fits`
 * returns true. Changes nothing if there is no such model. */
void request_first_model(struct request *request, bool (*fits)(const struct model_info *info));
const struct model *request_engine_model(const struct request *request);
const char *request_model_name(const struct request *request);

/* The default for the key `truncate` of a request. If true, inputs that are too long are cut. If false, they are
 * refused. */
bool request_auto_truncate(const struct request *request);

#endif
