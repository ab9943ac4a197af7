/* routes: finds the route of a path and a method. A dialect is a group of routes whose errors have the same format. A
 * new dialect needs a file in server/dialects, and a line in dialects.c there. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/http/request.h"

enum outcome {
    OUTCOME_FAILED,   /* the request is refused. request->failure is set */
    OUTCOME_ANSWERED, /* request->answer is complete */
    OUTCOME_RUN,      /* request->job is ready to be submitted to the batcher */
    OUTCOME_SLOW,     /* the route's `answer` must be called on the thread for slow work, because it may take minutes */
};

/* The kinds of body that a route accepts. */
enum route_accepts {
    ACCEPTS_NONE,
    ACCEPTS_JSON, /* JSON. If the client sends a Content-Type, it must be that of JSON, or that of a form, which curl -d
                     sends */
    ACCEPTS_PICTURE, /* JSON, or the contents of a JPEG or PNG file */
    ACCEPTS_BINARY,  /* JSON, binary data, or JSON followed by binary data, with any Content-Type, but no picture. The
                        body may be compressed. If the client requests it, the answer of a job is also compressed */
};

/* Whether requests to a route are requests for work. Such requests are refused before the models are ready, and while
 * the server drains. */
enum route_work {
    WORK_NONE,
    WORK_OTHER,     /* a request for work that returns no results of a model, such as /tokenize */
    WORK_INFERENCE, /* a request for results of a model. The statistics of the model count such requests */
};

struct route {
    const char *method;
    const char *path; /* {} matches any segment that is not empty. The segment is copied to request->parameters */
    enum route_accepts accepts;
    bool open;    /* requests need no API key */
    bool metrics; /* requests need an API key only with --protect-metrics, because scrapers often have no key */
    enum route_work work;
    bool heavy; /* `read` may take long, so a worker calls it, and the event loop can serve other connections */
    enum outcome (*read)(struct request *request);
    /* Called after the last job has run, or after OUTCOME_SLOW. On failure sets request->failure and returns -1. For a
     * streamed answer, it writes the last text. A thread of the batcher then calls it, so it must be quick. */
    int (*answer)(struct request *request);
};

struct dialect {
    const char *prefixes[6];    /* prefixes of the dialect's paths. The last entry is NULL. The dialect also writes the
                                   errors for unknown paths with such a prefix */
    const struct route *routes; /* table of the routes. The first route that matches serves a path */
    size_t n_routes;
    int invalid_status; /* HTTP status of FAILURE_INVALID: 422, or 400 if the clients of the dialect expect 400 */
    void (*write_failure)(struct writer *writer, const struct failure *failure);
    const char *out_of_memory; /* the complete error "out of memory" in the dialect's format. It is a constant, because
                                  memory for writing an error may be lacking */
};

struct route_match {
    const struct dialect *dialect; /* never NULL */
    const struct route *route;     /* NULL if the path is unknown, or does not allow the method */
    bool path_known;
    char allow[64]; /* value of the header Allow: the methods of a known path */
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES]; /* copied to request->parameters */
};

/* The HTTP status for the kind. It is invalid_status for FAILURE_INVALID, and failure_status(kind) for the other
 * kinds. */
int dialect_status(const struct dialect *dialect, enum failure_kind kind);

/* In both functions below, `dialects` is a list with at least one dialect. Its last entry is NULL. The last dialect
 * writes the errors for paths that match no prefix. */

/* Returns route number `index` among the routes of all dialects, in the order of the lists. NULL if there are fewer
 * routes. */
const struct route *routes_at(const struct dialect *const *dialects, size_t index);

/* Finds the route for a method and a path. A HEAD request matches the GET route. */
void routes_find(const struct dialect *const *dialects, const char *method, const char *path,
                 struct route_match *match);

#endif
