/* failure: the reason why a request fails, as a kind and a sentence. Routes set the failure. A dialect is a group of
 * routes whose errors have the same format. The dialect's write_failure writes the failure in this format.
 * failure_status maps the kind to an HTTP status. */
#ifndef SERVER_FAILURE_H
#define SERVER_FAILURE_H

#include "config/config.h"

enum failure_kind {
    FAILURE_NONE,
    FAILURE_MALFORMED,   /* the body is not JSON, or a header is wrong */
    FAILURE_KEY,         /* the API key is missing or wrong */
    FAILURE_NOT_FOUND,   /* the path is unknown */
    FAILURE_NO_MODEL,    /* there is no model with the requested name */
    FAILURE_METHOD,      /* the path is known, but does not accept the method */
    FAILURE_TOO_LARGE,   /* the body is too large */
    FAILURE_MEDIA_TYPE,  /* the route does not accept the body's media type or compression */
    FAILURE_INVALID,     /* the body is well-formed, but not valid for the route or the model */
    FAILURE_OVERLOADED,  /* the server is overloaded, and the same request may succeed later */
    FAILURE_GONE,        /* the client has closed the connection, so nobody reads the answer */
    FAILURE_BACKEND,     /* the daemon itself is at fault: the engine failed, or memory is lacking */
    FAILURE_UNSUPPORTED, /* this build of the daemon cannot do what the request asks for */
    FAILURE_UNAVAILABLE, /* the daemon is not ready yet, or it is draining */
    FAILURE_EXPIRED,     /* the deadline has passed */
    FAILURE_COUNT,
};

struct failure {
    enum failure_kind kind;
    struct error error;
};

/* Writes kind and message. Always returns -1, so that a caller can write `return failure_set(...)`. */
int failure_set(struct failure *failure, enum failure_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int failure_memory(struct failure *failure); /* sets FAILURE_BACKEND with "out of memory". Always returns -1 */

/* The HTTP status of a kind. A dialect may use another status for FAILURE_INVALID. */
int failure_status(enum failure_kind kind);
const char *failure_type(enum failure_kind kind); /* the name of the error type, as in text-embeddings-inference */
const char *failure_type_of(int status);          /* the error type for an HTTP status of 400 or more */

#endif
