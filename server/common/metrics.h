/* metrics: counters and histograms in Prometheus' text format. Any thread may call the functions. They use no lock, but
 * relaxed atomics. So a scrape, which is a request of Prometheus for the metrics, may see an event in some counters,
 * and not yet in others. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "engine/engine.h"
#include "server/common/process.h"
#include "server/common/statistics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics;

#define METRICS_MAX_MODELS 1000

/* Allocates metrics for models with these names, which are copied. `n_models` is at most METRICS_MAX_MODELS. Returns
 * NULL if memory is lacking. */
struct metrics *metrics_open(const char *const *names, int64_t n_models);
void metrics_close(struct metrics *metrics);

/* Returns the index of the model with this name, and adds the model if it is new. Returns -1 if memory is lacking, or
 * if there are too many models. Only one thread at a time may call metrics_add_model. An index and its name stay
 * valid. */
int64_t metrics_add_model(struct metrics *metrics, const char *name);
int64_t metrics_models(const struct metrics *metrics); /* returns the number of models, which never decreases */
const char *metrics_model_name(const struct metrics *metrics, int64_t model_index);

/* Call metrics_load_begin before a model is loaded, and metrics_load_end when the model was loaded or loading has
 * failed. */
void metrics_load_begin(struct metrics *metrics);
void metrics_load_end(struct metrics *metrics, int64_t model_index, bool loaded);

/* A reload (server/reloads.h) calls metrics_reload_begin, then metrics_reload_fault for each part that stays as it was,
 * and finally metrics_reload_end. All these calls are made on one thread. */
void metrics_reload_begin(struct metrics *metrics);
void metrics_reload_fault(struct metrics *metrics);
void metrics_reload_end(struct metrics *metrics);

#define METRICS_NO_MODEL (-1)

/* Records an answered request. `route` is the path in the table of routes, such as "/v2/models/{}", never the path that
 * the client sent. This string must outlive the metrics. `model_index` may be METRICS_NO_MODEL. queue_ns and
 * inference_ns are 0 for a request without a job. */
void metrics_request(struct metrics *metrics, const char *route, int64_t model_index, int status, int64_t total_ns,
                     int64_t queue_ns, int64_t inference_ns);

/* Records the end of a request for results of a model. */
void metrics_inference(struct metrics *metrics, int64_t model_index, const struct statistics_request *request);

/* The statistics of one model, as recorded by metrics_inference and metrics_batch. */
const struct model_statistics *metrics_statistics(const struct metrics *metrics, int64_t model_index);

/* Records a batch after it has run. */
void metrics_batch(struct metrics *metrics, int64_t model_index, int64_t items, int64_t tokens, int64_t inference_ns);

/* The three functions below record generated sequences. `metrics` may be NULL. */

/* Records the first new token of a sequence. The prompt of the sequence has prompt_tokens tokens. Both times begin when
 * the request's first job is submitted. queue_ns ends with the start of the first batch, since_arrival_ns with the
 * token. */
void metrics_first_token(struct metrics *metrics, int64_t model_index, int64_t prompt_tokens, int64_t queue_ns,
                         int64_t since_arrival_ns);
void metrics_next_token(struct metrics *metrics, int64_t model_index, int64_t since_token_ns);
/* Records the end of a sequence that has at least one new token. The string `reason` must outlive the metrics. */
void metrics_generation_end(struct metrics *metrics, int64_t model_index, const char *reason);

/* The state of one model at the time of the scrape. */
struct metrics_model_now {
    bool absent;               /* the model is not loaded. All other members are then 0 */
    int64_t requests;          /* number of waiting sequences */
    int64_t tokens;            /* number of tokens of the waiting sequences */
    bool generates;            /* the model can generate tokens. Only then are the members below shown */
    int64_t waiting_for_slots; /* number of sequences that wait for a slot */
    int64_t slots, slots_used;
    int64_t slot_bytes; /* memory of all slots together, in bytes */
    int64_t weights_bytes;
};

/* Values that are read at the time of the scrape. */
struct metrics_now {
    const struct metrics_model_now *models; /* `n_models` elements, indexed like the models */
    int64_t n_models;                       /* at most metrics_models() */
    int64_t log_lines_dropped;
    int64_t spans_sent, spans_dropped;
    int64_t connections;
    int64_t certificate_end_s; /* time at which the certificate expires, in seconds since 1970. 0 without TLS */
    struct process_state process;
    double started_s; /* time at which the process started, in seconds since 1970 */
    double uptime_s;
    struct engine_device devices[ENGINE_MAX_DEVICES];
    int n_devices;
    struct engine_counts batches;
};

/* Returns the text for a scrape, or NULL if memory is lacking. The caller frees the text. */
char *metrics_text(const struct metrics *metrics, const struct metrics_now *now, size_t *length);

#endif
