/* batcher: jobs wait in their model's queue; a thread for each lane of the engine runs them in batches.
 * An idle lane starts at once; what arrives while all lanes run a batch forms the next one. Several models take turns
 * on the lanes that they share.
 *
 * Fairness: jobs are served in the order of their arrival, each with as many items as the batch still has room for. The
 * job at the front may take a whole batch; if items of it are left, it goes behind all who wait, when the batch is
 * formed and again when it ends. So a small job waits for the batches that run, and for one or two batches of each
 * larger job ahead of it. None of these is meant to take longer than max_batch_ms, but for an item that does alone.
 *
 * Threads: batcher_submit, batcher_cancel and the counters from any thread. `wanted` and `done` are called without the
 * batcher's lock held: `wanted` on a thread that runs batches, of a job that is split on several at once; `done`
 * exactly once for each submitted job, on one of these or on the one that watches deadlines. Both must be short; `done`
 * hands the job to others. */
#ifndef SERVER_BATCHER_H
#define SERVER_BATCHER_H

#include "server/jobs/job.h"

#include <stdint.h>

struct batcher;

/* A job that is beyond its queue's bound all by itself is admitted when nothing waits in it. */
struct batcher_options {
    int64_t max_batch_tokens;
    int64_t max_batch_requests;
    int64_t max_batch_ms;       /* a batch of several items is meant to take no longer, by what earlier ones of the
                                   model took; 0: however long it takes */
    int64_t max_queue_tokens;   /* waiting for one model: a backlog of one keeps nobody from another */
    int64_t max_queue_requests; /* waiting items, likewise */
};

/* Starts the threads, and returns when each has warmed up every model that it runs (model_warm_up). `models` (n_models
 * of them) outlive the batcher. `metrics` may be NULL. */
struct metrics;
int batcher_open(struct model **models, int64_t n_models, const struct batcher_options *options,
                 struct metrics *metrics, struct batcher **batcher, struct error *error);

/* A device works again: its lanes need not sleep until more is submitted, or others' batches end. Any thread. */
void batcher_wake(struct batcher *batcher);

/* Refuses new jobs from now on; those accepted are answered. */
void batcher_drain(struct batcher *batcher);

/* Waits until nothing is queued or running, ends the threads, frees. NULL is harmless. No call may come after it, nor
 * from `done` or `wanted`. */
void batcher_close(struct batcher *batcher);

enum submit_status {
    SUBMIT_OK,
    SUBMIT_FULL,     /* 429: all of the job or nothing is admitted */
    SUBMIT_DRAINING, /* 503 */
};

/* On SUBMIT_OK `done` will be called (perhaps before this returns); otherwise never, and the job is the caller's. */
enum submit_status batcher_submit(struct batcher *batcher, int64_t model_index, struct job *job);

/* Its items that have not been started won't be. `done` is still called, at the end of the batch when one holds items
 * of it. The job must still be valid: the caller keeps `done` from freeing it meanwhile. After its end this does
 * nothing. */
void batcher_cancel(struct batcher *batcher, struct job *job);

/* Waiting now, for one model. */
void batcher_depth(struct batcher *batcher, int64_t model_index, int64_t *requests, int64_t *tokens);

/* Seconds until the model's queue has likely been worked off, at least 1: for Retry-After. */
int64_t batcher_retry_after_s(struct batcher *batcher, int64_t model_index);

#endif
