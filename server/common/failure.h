/* failure: why a request is refused. Decoders name a kind and say it in a sentence; here alone a kind becomes an HTTP
 * status, and a dialect's write_failure alone gives it a shape. */
#ifndef SERVER_FAILURE_H
#define SERVER_FAILURE_H

#include "config/config.h"

enum failure_kind {
    FAILURE_NONE,
    FAILURE_MALFORMED,   /* not JSON, or not HTTP as it should be */
    FAILURE_KEY,         /* the API key is missing or wrong */
    FAILURE_NOT_FOUND,   /* no such path */
    FAILURE_NO_MODEL,    /* none of that name */
    FAILURE_METHOD,      /* the path has other methods */
    FAILURE_TOO_LARGE,   /* the body */
    FAILURE_MEDIA_TYPE,  /* of the body */
    FAILURE_INVALID,     /* well-formed, but not what the route or the model takes */
    FAILURE_OVERLOADED,  /* later it may work */
    FAILURE_GONE,        /* the client left; nobody reads this */
    FAILURE_BACKEND,     /* ours: the engine, or memory */
    FAILURE_UNAVAILABLE, /* not ready, or draining */
    FAILURE_EXPIRED,     /* its deadline passed */
    FAILURE_COUNT,
};

struct failure {
    enum failure_kind kind;
    struct error error;
};

/* Writes kind and message; returns -1, so that `return failure_set(...)` reads well. */
int failure_set(struct failure *failure, enum failure_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int failure_memory(struct failure *failure);

int failure_status(enum failure_kind kind);       /* HTTP; a dialect may have another for FAILURE_INVALID */
const char *failure_type(enum failure_kind kind); /* as text-embeddings-inference names it */
const char *failure_type_of(int status);          /* the same for an HTTP status of 400 and more */

#endif
