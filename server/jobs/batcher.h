/* batcher: jobs wait in the queue of their model, and threads run them in batches. The engine runs one batch at a time
 * in each of its lanes (engine.h); the batcher has one thread for each lane. An idle lane starts a job at once. Jobs
 * that arrive while all lanes are busy form the next batch together. Models that share a lane take turns on it.
 *
 * Fairness: jobs are served in the order of their arrival. Each puts as many items into a batch as it has room for. The
 * first job may fill a whole batch; its remaining items then go to the end of the queue. So a small job waits for the
 * batches that run, and for one or two batches of each larger job before it. A batch of several items is planned to
 * take at most max_batch_ms.
 *
 * Threads: batcher_submit, batcher_wake and the counters may be called on any thread. The batcher calls `wanted` and
 * `done` of a job without its lock. It calls `wanted` on a lane's thread. If the job's items are in several batches, it
 * may call `wanted` on several threads at once. It calls `done` exactly once for each submitted job, on a lane's thread
 * or on the deadline thread. Both functions must return quickly. */
#ifndef SERVER_BATCHER_H
#define SERVER_BATCHER_H

#include "server/jobs/job.h"

#include <stdint.h>

struct batcher;

/* A job larger than a bound of its queue is admitted when the queue is empty. */
struct batcher_options {
    int64_t max_batch_tokens;
    int64_t max_batch_requests;
    int64_t max_batch_ms;       /* planned time of a batch with several items, from the model's earlier batches; 0: no
                                   bound */
    int64_t max_queue_tokens;   /* tokens waiting for one model. Each model has its own bound */
    int64_t max_queue_requests; /* items waiting for one model */
};

/* Starts the threads. Returns when each has warmed up the models of its lane (model_warm_up). `models` (n_models) must
 * outlive the batcher; the array itself is copied. `metrics` may be NULL. -1: `error`. */
struct metrics;
int batcher_open(struct model **models, int64_t n_models, const struct batcher_options *options,
                 struct metrics *metrics, struct batcher **batcher, struct error *error);

/* Call when a device works again: its sleeping lanes then look for work. Any thread. */
void batcher_wake(struct batcher *batcher);

/* Refuses new jobs from now on. Accepted jobs are still run. */
void batcher_drain(struct batcher *batcher);

/* Refuses new jobs, runs all accepted ones, ends the threads and frees the batcher. NULL does nothing. `done` and
 * `wanted` must not call it, and no other call may follow it. */
void batcher_close(struct batcher *batcher);

enum submit_status {
    SUBMIT_OK,
    SUBMIT_FULL,     /* 429: the whole job does not fit its queue */
    SUBMIT_DRAINING, /* 503 */
};

/* After SUBMIT_OK the batcher calls `done`, perhaps before this returns. After any other status it never does, and the
 * caller keeps the job. */
enum submit_status batcher_submit(struct batcher *batcher, int64_t model_index, struct job *job);

/* Items and tokens that wait for one model now. */
void batcher_depth(struct batcher *batcher, int64_t model_index, int64_t *requests, int64_t *tokens);

/* Estimated seconds until the model's queue is empty, 1 to 3600. For Retry-After. */
int64_t batcher_retry_after_s(struct batcher *batcher, int64_t model_index);

#endif
