/* routes: which path and method mean what. A dialect is a table of routes and the shape of its errors. A new one is a
 * file of its own in server/dialects, and a line in dialects.c there. */
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
    BODY_JSON, /* a Content-Type that is there must be JSON */
    BODY_ANY,  /* whatever Content-Type says; it may be compressed, and so is the answer of a job if asked for */
};

struct route {
    const char *method;
    const char *path; /* a segment may be {}, any one that is not empty: request->parameters, in their order */
    enum route_body body;
    bool open;    /* needs no API key */
    bool metrics; /* needs one with --protect-metrics alone: scrapers often have none */
    bool work;    /* is refused before the models are ready and while the server drains */
    enum outcome (*read)(struct request *request);
    int (*answer)(struct request *request); /* after the job was run; -1: request->failure */
};

struct dialect {
    const char *prefixes[3]; /* of its paths, for errors where no route matched; the last is NULL */
    const struct route *routes;
    size_t n_routes;
    int invalid_status; /* HTTP, of FAILURE_INVALID: 422, or 400 where its clients expect that */
    void (*write_failure)(struct writer *writer, const struct failure *failure);
    const char *out_of_memory; /* what it would write when there is no memory to write it */
};

struct route_match {
    const struct dialect *dialect; /* never NULL */
    const struct route *route;     /* NULL: no such path, or not with this method */
    bool path_known;
    char allow[64]; /* the methods of a known path, for the Allow header */
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES]; /* as in struct request */
};

int dialect_status(const struct dialect *dialect, enum failure_kind kind); /* HTTP */

/* `dialects` is ended by NULL and not empty. Of a path that fits no prefix the last one writes the error. */

/* Route `index` of all the dialects' routes, from 0 on. NULL: there are fewer. */
const struct route *routes_at(const struct dialect *const *dialects, size_t index);

/* HEAD finds the GET route. */
void routes_find(const struct dialect *const *dialects, const char *method, const char *path,
                 struct route_match *match);

#endif
