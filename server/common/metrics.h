/* metrics: counters and histograms in Prometheus' text format. Any thread may call the functions. They take no lock,
 * but use relaxed atomics. So a scrape may see an event in some counters, and not yet in others. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "engine/engine.h"
#include "server/common/process.h"
#include "server/common/statistics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct metrics;

#define METRICS_MOST_MODELS 1000

/* `names` (n_models, at most METRICS_MOST_MODELS) are the names of the served models, which are copied. NULL if memory
 * is lacking. */
struct metrics *metrics_open(const char *const *names, int64_t n_models);
void metrics_close(struct metrics *metrics);

/* Returns the index of the model with this name, and adds the model if it is new. Returns -1 if memory is lacking, or
 * if there are too many models. Only one thread at a time may call it. An index and its name stay valid. */
int64_t metrics_add_model(struct metrics *metrics, const char *name);
int64_t metrics_models(const struct metrics *metrics); /* the number of models. It only grows */
const char *metrics_model_name(const struct metrics *metrics, int64_t model_index);

/* Call metrics_load_begin before a model is loaded, and metrics_load_end when it was loaded or could not be loaded. */
void metrics_load_begin(struct metrics *metrics);
void metrics_load_end(struct metrics *metrics, int64_t model_index, bool loaded);

/* A reload calls metrics_reload_begin, metrics_reload_fault for each part that stays as it was, and metrics_reload_end.
 * It makes these calls on one thread. */
void metrics_reload_begin(struct metrics *metrics);
void metrics_reload_fault(struct metrics *metrics);
void metrics_reload_end(struct metrics *metrics);

#define METRICS_NO_MODEL (-1)

/* Records an answered request. `route` is the path in the table of routes, such as "/v2/models/{}", and never the path
 * that the client sent. The string must outlive the metrics. `model_index` may be METRICS_NO_MODEL. queue_ns and
 * inference_ns are 0 for a request without a job. */
void metrics_request(struct metrics *metrics, const char *route, int64_t model_index, int status, int64_t total_ns,
                     int64_t queue_ns, int64_t inference_ns);

/* Records the end of a request for results of a model. */
void metrics_inference(struct metrics *metrics, int64_t model_index, const struct statistics_request *request);

/* The counts of metrics_inference and metrics_batch for one model. */
const struct model_statistics *metrics_statistics(const struct metrics *metrics, int64_t model_index);

/* Records a batch after it has run. */
void metrics_batch(struct metrics *metrics, int64_t model_index, int64_t items, int64_t tokens, int64_t inference_ns);

/* These functions record generated sequences. `metrics` may be NULL. */

/* Records the first new token of a sequence. Its prompt has prompt_tokens tokens. queue_ns is the time from the
 * request's arrival to its first batch. */
void metrics_first_token(struct metrics *metrics, int64_t model_index, int64_t prompt_tokens, int64_t queue_ns,
                         int64_t since_arrival_ns);
void metrics_next_token(struct metrics *metrics, int64_t model_index, int64_t since_token_ns);
/* Records the end of a sequence that has at least one new token. The string `reason` must outlive the metrics. */
void metrics_generation_end(struct metrics *metrics, int64_t model_index, const char *reason);

/* The present state of one model, for the scrape. */
struct metrics_model_now {
    bool absent;      /* the model is not loaded. All other members are 0 */
    int64_t requests; /* number of sequences that wait */
    int64_t tokens;   /* sum of the tokens of these sequences */
    bool generates;   /* the model generates, so the members below are shown */
    int64_t slotless; /* number of sequences that wait for a slot */
    int64_t slots, slots_used;
    int64_t slot_bytes; /* bytes of all slots together */
    int64_t weights_bytes;
};

/* Values that are read at the time of the scrape. */
struct metrics_now {
    const struct metrics_model_now *models; /* (n_models), by the index of the model */
    int64_t n_models;                       /* at most metrics_models() */
    int64_t log_lines_dropped;
    int64_t spans_sent, spans_dropped;
    int64_t connections;
    int64_t certificate_end_s; /* when the certificate expires, in seconds since 1970. 0 without TLS */
    struct process_state process;
    double started_s; /* the start of the process, in seconds since 1970 */
    double uptime_s;
    struct engine_device devices[ENGINE_MAX_DEVICES];
    int n_devices;
    struct engine_counts batches;
};

/* Returns the text for a scrape. The caller frees it. NULL if memory is lacking. */
char *metrics_text(const struct metrics *metrics, const struct metrics_now *now, size_t *length);

#endif
