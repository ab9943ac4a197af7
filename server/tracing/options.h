/* options: the collector to which spans are sent, and the choice of the requests that are traced. The options come from
 * --otlp-endpoint, and from the environment variables that OpenTelemetry specifies for all programs. */
#ifndef SERVER_TRACING_OPTIONS_H
#define SERVER_TRACING_OPTIONS_H

#include "config/config.h"
#include "server/tracing/trace_context.h"

#define TRACING_PAIRS 32 /* maximum number of pairs in the list of a variable */

struct tracing_pair {
    char *key, *value;
};

/* The choice of the requests that are traced: all, none, or a fraction of them. Whether a request belongs to the
 * fraction depends only on its trace id. */
struct sampler {
    bool follows_parent; /* if true, a request with a valid header traceparent is traced exactly if its caller traces it
                          */
    double ratio;        /* fraction of all other requests that are traced, from 0 to 1 */
};

struct tracing_options {
    char *url;         /* URL of the collector's route for traces. NULL if nothing is traced */
    char *certificate; /* path of a file with certificates of authorities. NULL if the system's authorities are used */
    char *service_name;
    struct tracing_pair headers[TRACING_PAIRS], attributes[TRACING_PAIRS];
    int n_headers, n_attributes;
    int64_t timeout_ms; /* maximum time of one request to the collector */
    struct sampler sampler;
};

/* Reads the environment variables. `endpoint` is the setting --otlp-endpoint, or NULL. If nothing is traced, sets only
 * `url`, to NULL. After success the caller must call tracing_options_free. After failure there is nothing to free. */
int tracing_options_read(const char *endpoint, struct tracing_options *options, struct error *error);
void tracing_options_free(struct tracing_options *options);

/* Whether to trace a request. `parent` is NULL if the request has no valid header traceparent. */
bool sampler_takes(const struct sampler *sampler, const struct trace_context *parent,
                   const unsigned char trace_id[TRACE_ID_BYTES]);

#endif
