/* routes: finds the route of a path and a method. A dialect is a group of routes whose errors have the same format. A
 * new dialect needs a file in server/dialects, and a line in dialects.c there. */
#ifndef SERVER_ROUTES_H
#define SERVER_ROUTES_H

#include "server/http/request.h"

enum outcome {
    OUTCOME_FAILED,   /* request->failure is set */
    OUTCOME_ANSWERED, /* request->answer is complete */
    OUTCOME_RUN,      /* request->job is ready for the batcher */
    OUTCOME_SLOW,     /* the route's `answer` is to be called on the thread for slow work. It may take minutes */
};

/* What the body of a request may be. */
enum route_accepts {
    ACCEPTS_NONE,
    ACCEPTS_JSON,    /* a Content-Type, if given, must be JSON or that of a form, which curl -d sends */
    ACCEPTS_PICTURE, /* JSON, or the file of a JPEG or PNG picture */
    ACCEPTS_BINARY,  /* JSON, binary data, or JSON followed by binary data, but no picture. Any Content-Type. The body
                        may be compressed. If the client requests it, the answer of a job is compressed, too */
};

/* Whether requests to a route are requests for work. Such requests are refused before the models are ready, and while
 * the server drains. */
enum route_work {
    WORK_NONE,
    WORK_OTHER,     /* such as /tokenize */
    WORK_INFERENCE, /* returns results of a model. The statistics of the model count the request */
};

struct route {
    const char *method;
    const char *path; /* {} matches any segment that is not empty. The segment is then in request->parameters */
    enum route_accepts accepts;
    bool open;    /* requests need no API key */
    bool metrics; /* requests need an API key only with --protect-metrics, because scrapers often have no key */
    enum route_work work;
    bool heavy; /* `read` may take long. A worker calls it, so that the event loop can serve other connections */
    enum outcome (*read)(struct request *request);
    /* Called after the last job has run, or after OUTCOME_SLOW. On failure sets request->failure and returns -1. For a
     * streamed answer, it writes the last text. Then it is called on a lane's thread, so it must be quick. */
    int (*answer)(struct request *request);
};

struct dialect {
    const char *prefixes[6];    /* prefixes of its paths, ended by NULL. The dialect also writes the errors for unknown
                                   paths with such a prefix */
    const struct route *routes; /* the first one that matches serves a path */
    size_t n_routes;
    int invalid_status; /* HTTP status of FAILURE_INVALID: 422, or 400 if the clients of the dialect expect 400 */
    void (*write_failure)(struct writer *writer, const struct failure *failure);
    const char *out_of_memory; /* the complete error "out of memory" in the dialect's format. It is a constant, because
                                  writing an error needs memory */
};

struct route_match {
    const struct dialect *dialect; /* never NULL */
    const struct route *route;     /* NULL if the path is unknown, or not known with this method */
    bool path_known;
    char allow[64]; /* for the header Allow: the methods of a known path */
    char parameters[REQUEST_PARAMETERS][REQUEST_PARAMETER_BYTES]; /* as in struct request */
};

/* The HTTP status for the kind. Like failure_status, but FAILURE_INVALID has the dialect's invalid_status. */
int dialect_status(const struct dialect *dialect, enum failure_kind kind);

/* In both functions `dialects` is a list with at least one dialect, ended by NULL. The last dialect writes the error
 * for a path that matches no prefix. */

/* Route number `index` among the routes of all dialects. NULL if there are fewer routes. */
const struct route *routes_at(const struct dialect *const *dialects, size_t index);

/* A HEAD request matches the GET route. */
void routes_find(const struct dialect *const *dialects, const char *method, const char *path,
                 struct route_match *match);

#endif
