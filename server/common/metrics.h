/* metrics: counters and histograms in Prometheus' text format. All functions may be called from any thread; recording
 * takes no lock (relaxed atomics), so a scrape may see one event's counters a moment apart. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "engine/engine.h"

#include <stddef.h>
#include <stdint.h>

struct metrics;
/* `names` are those of the models served (n_models of them); the strings outlive the metrics. NULL: out of memory. */
struct metrics *metrics_open(const char *const *names, int64_t n_models);
void metrics_close(struct metrics *metrics);

#define METRICS_NO_MODEL (-1)

/* One answered request: its route's template ("/embed", never the raw path; a string that outlives the metrics), the
 * model's index or METRICS_NO_MODEL, HTTP status, and times in nanoseconds (queue and inference 0 where none). */
void metrics_request(struct metrics *metrics, const char *route, int64_t model_index, int status, int64_t total_ns,
                     int64_t queue_ns, int64_t inference_ns);

/* One batch that ran. */
void metrics_batch(struct metrics *metrics, int64_t model_index, int64_t items, int64_t tokens, int64_t inference_ns);

struct metrics_queue {
    int64_t requests, tokens; /* that wait for one model */
};

/* What is read at scrape time. */
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

/* The exposition text; the caller frees it. NULL: out of memory. */
char *metrics_text(const struct metrics *metrics, const struct metrics_now *now, size_t *length);

#endif
