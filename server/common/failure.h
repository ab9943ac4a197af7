/* failure: the reason why a request fails, as a kind and a sentence. Routes set it. A dialect's write_failure gives it
 * the dialect's shape, and this file gives the kind an HTTP status. */
#ifndef SERVER_FAILURE_H
#define SERVER_FAILURE_H

#include "config/config.h"

enum failure_kind {
    FAILURE_NONE,
    FAILURE_MALFORMED,   /* the body is not JSON, or a header is wrong */
    FAILURE_KEY,         /* the API key is missing or wrong */
    FAILURE_NOT_FOUND,   /* no such path */
    FAILURE_NO_MODEL,    /* no model of that name */
    FAILURE_METHOD,      /* the path has other methods */
    FAILURE_TOO_LARGE,   /* the body is too large */
    FAILURE_MEDIA_TYPE,  /* the body has another media type or compression than the route accepts */
    FAILURE_INVALID,     /* the body is well-formed, but not valid for the route or the model */
    FAILURE_OVERLOADED,  /* the same request may succeed later */
    FAILURE_GONE,        /* the client left; it does not read the answer */
    FAILURE_BACKEND,     /* the daemon's own fault: the engine failed, or memory is out */
    FAILURE_UNAVAILABLE, /* the daemon is not ready, or it drains */
    FAILURE_EXPIRED,     /* the deadline passed */
    FAILURE_COUNT,
};

struct failure {
    enum failure_kind kind;
    struct error error;
};

/* Writes kind and message. Returns -1, so that a caller can `return failure_set(...)`. */
int failure_set(struct failure *failure, enum failure_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int failure_memory(struct failure *failure); /* FAILURE_BACKEND, "out of memory"; returns -1 */

int failure_status(enum failure_kind kind);       /* HTTP; a dialect may have another for FAILURE_INVALID */
const char *failure_type(enum failure_kind kind); /* the error type of text-embeddings-inference */
const char *failure_type_of(int status);          /* the error type for an HTTP status of 400 or more */

#endif
