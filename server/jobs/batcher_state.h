/* batcher_state: the data of a batcher. Only the files of the batcher may include this header. batcher.c submits jobs.
 * batch.c forms and runs batches. lane_threads.c contains the threads of the lanes. lanes.c decides which lanes can run
 * a job. deadlines.c contains the deadline thread.
 *
 * Lock: one lock, batcher.lock, guards the queues, the counters, and the private members of each job from
 * batcher_submit to the job's end. The lock is not held while a batch runs, nor during calls of `wanted`, `done` and
 * the log. A lane's batch belongs to the lane's thread and needs no lock. No other lock is taken while this lock is
 * held. */
#ifndef SERVER_BATCHER_STATE_H
#define SERVER_BATCHER_STATE_H

#include "server/common/log.h"
#include "server/jobs/batcher_options.h"
#include "server/jobs/finite.h"
#include "server/jobs/lane_time.h"
#include "server/jobs/model_queue.h"
#include "server/jobs/pace.h"

#include <pthread.h>

/* The batcher's data of one model. */
struct batcher_entry {
    struct model_queue waiting; /* the jobs of one model */
    int64_t metrics;            /* the model's index in the metrics */
    uint64_t cold;              /* bit i is set until the model's lane number i has warmed up the model */
    uint64_t ready_lanes; /* copy of model_ready_lanes. Bit i is set if the device of the model's lane number i works */
    struct pace paces[JOB_KINDS]; /* indexed by kind. `work` is in FLOPs. A step of generation reads all weights for a
                                     few rows, so a FLOP of generation takes longer than a FLOP of other items */
    struct pace token_paces[JOB_KINDS]; /* indexed by kind. `work` is in tokens */
};

/* The items of one job in a batch. Items [first_item, first_item + n_items) of the batch are items [job_item, job_item
 * + n_items) of the job. */
struct part {
    struct job *job;
    int64_t first_item, n_items, job_item;
    int64_t tokens;
    double flops, cost;
    bool wanted; /* the result of the job's `wanted`, called just before the run */

    /* batch_run sets the members below after the run. */
    bool flawed;         /* a result is not finite */
    int64_t flawed_item; /* index of the item with this result in the job */
    struct flaw flaw;
};

struct job_batch {
    struct model *model;
    struct engine_item *items; /* `n_items` items in use, memory for max_batch_requests */
    struct part *parts;        /* `n_parts` parts in use, memory for max_batch_requests */
    int64_t n_items, n_parts, tokens;
    int64_t kind_tokens[JOB_KINDS]; /* indexed by kind: the part of `tokens` that belongs to this kind */
    double flops[JOB_KINDS];
    double cost[JOB_KINDS]; /* indexed by kind: the estimated time of its items, computed with item_cost */
    struct job *first; /* the job whose turn this batch was: the smaller jobs pass it in the queue. NULL if the job was
                          dropped */
};

/* A lane of the engine, with the thread that runs its batches. */
struct lane {
    struct batcher *batcher;
    int number;
    pthread_t thread;
    struct job_batch batch;

    pthread_cond_t work; /* signalled when `asleep` becomes false */
    bool asleep;         /* the lane waits for `work`. Guarded by the batcher's lock */
    int64_t rounds;      /* number of times that the lane has looked for work. Guarded by the batcher's lock */
    /* The value of `rounds` at the last call of batcher_progresses. Guarded by the batcher's lock. */
    int64_t seen_rounds;

    /* Only the lane's thread uses the members below. */
    int64_t turns[JOB_KINDS]; /* indexed by kind: index of the model whose queue the lane searches first */
    struct lane_time time;
};

struct batcher {
    struct batcher_options options;
    struct metrics *metrics;
    struct lane *lanes; /* `n_lanes` lanes */
    int n_lanes, n_started;
    pthread_t deadline_thread;
    struct log_limit not_finite, failures; /* limits on the number of log lines about batches */

    pthread_mutex_t lock;    /* guards the members below */
    pthread_cond_t warmed;   /* signalled when a lane has warmed up a model */
    bool warm_failed;        /* a warm-up has failed since this member was last set to false */
    struct error warm_error; /* the message of the first warm-up that failed */
    pthread_cond_t alarm;    /* the deadline thread waits for it on CLOCK_MONOTONIC. Signalled when alarm_ns, ask_ns,
                                `ended` or `stopping` changes */
    struct model **models; /* `n_models` pointers. NULL for a free index. The submitter of a job may read the pointer to
                              its model without the lock, because the pointer does not change before the job ends */
    struct batcher_entry *entries; /* `n_models` entries */
    int64_t n_models;      /* number of indices that were ever used, at most BATCHER_MAX_MODELS. It never decreases */
    struct job_list ended; /* jobs that have ended. The deadline thread will call their `done` */
    int64_t alarm_ns; /* time of the next search of the queues for expired jobs. The search may begin ALARM_STEP_NS too
                         late */
    int64_t ask_ns;   /* time of the next calls of `wanted` for jobs that wait for slots. INT64_MAX if no job waits for
                         slots */
    bool closing;     /* the lanes must end when no jobs wait */
    bool stopping;    /* the deadline thread must end */
};

/* The list in which the job waits: one of the three lists of its model. The lock is held. */
static inline struct job_queue *waiting_list(struct batcher *batcher, const struct job *job)
{
    return model_queue_list(&batcher->entries[job->model_index].waiting, job);
}

/* Whether a job waits that has its slots or needs none, so that a lane could run it. */
static inline bool has_work(const struct batcher_entry *entry)
{
    return entry->waiting.lists[JOB_OTHER].first || entry->waiting.lists[JOB_GENERATION].first;
}

#endif
