/* batcher: jobs wait in their model's queue; a thread for each lane of the engine runs them in batches.
 *
 * A job is what one request asks of one model: one or many items. Items of a job may run in different batches (a large
 * request is split under the token budget); each writes its results in place, so order needs no putting together.
 * An idle lane starts at once; what arrives while all lanes run a batch forms the next one. Several models take turns
 * on the lanes that they share.
 *
 * Fairness: jobs are served in the order of their arrival, each with as many items as the batch still has room for. The
 * job at the front may take a whole batch; if items of it are left, it goes behind all who wait, when the batch is
 * formed and again when it ends. So a small job waits for the batches that run, and for one or two batches of each
 * larger job ahead of it.
 *
 * Threads: batcher_submit, batcher_cancel and the counters from any thread. `wanted` and `done` are called without the
 * batcher's lock held: `wanted` on a thread that runs batches, of a job that is split on several at once; `done`
 * exactly once for each submitted job, on one of these or on the one that watches deadlines. Both must be short; `done`
 * hands the job to others. */
#ifndef SERVER_BATCHER_H
#define SERVER_BATCHER_H

#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

struct batcher;

enum job_status {
    JOB_OK,
    JOB_EXPIRED,    /* its deadline passed before all its items had been computed: 504 */
    JOB_CANCELLED,  /* batcher_cancel before its end, or its `wanted` said no: nobody waits for it */
    JOB_FAILED,     /* the engine failed: 500, `error` says why */
    JOB_NOT_FINITE, /* a result holds NaN or an infinity: 500 */
};

struct job {
    /* Set by the submitter; all of it, and what it points to, stays valid until `done`. */
    struct engine_item *items;       /* each passed model_check */
    int64_t n_items;                 /* >= 1 */
    int64_t deadline_ns;             /* CLOCK_MONOTONIC; 0: none */
    bool (*wanted)(struct job *job); /* asked right before its items run; NULL: always. E.g. is the socket open? */
    void (*done)(struct job *job);
    void *context;

    /* Set by the batcher; read them in or after `done`. */
    enum job_status status;
    struct error error;
    int64_t submitted_ns, started_ns, finished_ns; /* CLOCK_MONOTONIC; started: its first item's batch, or 0 */
    int64_t inference_ns;                          /* sum over the batches that held items of it */
    int64_t tokens;                                /* sum of model_item_tokens */

    /* The batcher's own. */
    struct job *next, *previous;
    int64_t model_index;
    int64_t next_item;      /* items before it were started */
    int64_t waiting_tokens; /* of the items that were not */
    int64_t running;        /* items in the batches that are formed or run now */
};

/* A job that is beyond its queue's bound all by itself is admitted when nothing waits in it. */
struct batcher_options {
    int64_t max_batch_tokens;
    int64_t max_batch_requests;
    int64_t max_queue_tokens;   /* waiting for one model: a backlog of one keeps nobody from another */
    int64_t max_queue_requests; /* waiting items, likewise */
};

/* Starts the threads. `models` (n_models of them) outlive the batcher. `metrics` may be NULL. */
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

/* Waiting now, for all models together. */
void batcher_depth(struct batcher *batcher, int64_t *requests, int64_t *tokens);

/* Seconds until the model's queue has likely been worked off, at least 1: for Retry-After. */
int64_t batcher_retry_after_s(struct batcher *batcher, int64_t model_index);

#endif
