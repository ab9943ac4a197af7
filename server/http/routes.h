/* routes: finds the route of a path and a method. A dialect is a table of routes, with its own shape of errors. A new
 * dialect is a file in server/dialects, and a line in dialects.c there. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/http/request.h"

enum outcome {
    OUTCOME_FAILED,   /* request->failure */
    OUTCOME_ANSWERED, /* request->answer */
    OUTCOME_RUN,      /* request->job is ready for the batcher */
};

enum route_body {
    BODY_NONE,
    BODY_JSON,    /* a Content-Type, if given, must be JSON */
    BODY_PICTURE, /* JSON, or the file of a JPEG or PNG picture */
    BODY_ANY,     /* of any Content-Type; it may be compressed. The answer of a job is compressed on request */
};

struct route {
    const char *method;
    const char *path; /* {} matches any segment that is not empty; request->parameters then holds the segment */
    enum route_body body;
    bool open;    /* needs no API key */
    bool metrics; /* needs an API key only with --protect-metrics, because scrapers often have none */
    bool work;    /* refused before the models are ready and while the server drains */
    enum outcome (*read)(struct request *request);
    int (*answer)(struct request *request); /* after the job has run; -1: request->failure */
};

struct dialect {
    const char
        *prefixes[3]; /* of its paths, ended by NULL. It also writes the errors for unknown paths with such a prefix */
    const struct route *routes;
    size_t n_routes;
    int invalid_status; /* HTTP status of FAILURE_INVALID: 422, or 400 if its clients expect 400 */
    void (*write_failure)(struct writer *writer, const struct failure *failure);
    const char *out_of_memory; /* a constant with the error "out of memory" in its shape, because writing an error needs
                                  memory */
};

struct route_match {
    const struct dialect *dialect; /* never NULL */
    const struct route *route;     /* NULL: the path is unknown, or has no such method */
    bool path_known;
    char allow[64]; /* the methods of a known path, for the Allow header */
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES]; /* as in struct request */
};

int dialect_status(const struct dialect *dialect, enum failure_kind kind); /* HTTP */

/* In both functions `dialects` is a list that is not empty, ended by NULL. The last one writes the error for a path
 * that fits no prefix. */

/* Route `index` of all the dialects' routes, from 0 on. NULL: there are fewer. */
const struct route *routes_at(const struct dialect *const *dialects, size_t index);

/* A HEAD request matches the GET route. */
void routes_find(const struct dialect *const *dialects, const char *method, const char *path,
                 struct route_match *match);

#endif
