/* metrics: counters and histograms in Prometheus' text format. All functions may be called from any thread; recording
 * takes no lock (relaxed atomics), so a scrape may see one event's counters a moment apart. */
#ifndef SERVER_METRICS_H
#define SERVER_METRICS_H

#include "engine/engine.h"

#include <stddef.h>
#include <stdint.h>

struct metrics;
struct metrics *metrics_open(void); /* NULL: out of memory. metrics_close is owed. */
void metrics_close(struct metrics *metrics);

/* One answered request: its route's template ("/embed", never the raw path; a string that outlives the metrics), HTTP
 * status, and times in nanoseconds (queue and inference 0 where none). */
void metrics_request(struct metrics *metrics, const char *route, int status, int64_t total_ns, int64_t queue_ns,
                     int64_t inference_ns);

/* One batch that ran. */
void metrics_batch(struct metrics *metrics, int64_t items, int64_t tokens, int64_t inference_ns);

/* What is read at scrape time. */
struct metrics_now {
    int64_t queue_requests, queue_tokens;
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
