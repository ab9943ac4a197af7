/* metrics: counters and histograms in Prometheus' text format. Any thread. Recording takes no lock (relaxed atomics),
 * so a scrape may see some counters of an event before the others. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "engine/engine.h"

#include <stddef.h>
#include <stdint.h>

struct metrics;

/* `names` (n_models) are those of the served models; the strings outlive the metrics. NULL: out of memory. */
struct metrics *metrics_open(const char *const *names, int64_t n_models);
void metrics_close(struct metrics *metrics);

#define METRICS_NO_MODEL (-1)

/* Records an answered request. `route` is the route's path, never the client's ("/v2/models/{}"); the string outlives
 * the metrics. `model_index` may be METRICS_NO_MODEL. queue_ns and inference_ns are 0 for a request without a job. */
void metrics_request(struct metrics *metrics, const char *route, int64_t model_index, int status, int64_t total_ns,
                     int64_t queue_ns, int64_t inference_ns);

/* Records a batch that ran. */
void metrics_batch(struct metrics *metrics, int64_t model_index, int64_t items, int64_t tokens, int64_t inference_ns);

struct metrics_queue {
    int64_t requests; /* sequences that wait for one model */
    int64_t tokens;   /* tokens of these sequences */
};

/* Values that are read at the time of the scrape. */
struct metrics_now {
    const struct metrics_queue *queues; /* (n_models) */
    int64_t log_lines_dropped;
    int64_t connections;
    int64_t resident_bytes;
    double uptime_s;
    struct engine_device devices[ENGINE_MAX_DEVICES];
    int n_devices;
    struct engine_counts batches;
};

/* The text for a scrape; the caller frees it. NULL: out of memory. */
char *metrics_text(const struct metrics *metrics, const struct metrics_now *now, size_t *length);

#endif
