/* batcher_state: the data of a batcher. Only the files of the batcher may include this header. batcher.c submits jobs.
 * batch.c forms and runs batches. lane_threads.c has the threads of the lanes. lanes.c says which lanes can run a job.
 * deadlines.c has the deadline thread.
 *
 * Lock: one lock, batcher.lock, guards the queues, the counters, and the private fields of each job from batcher_submit
 * to its end. It is not held while a batch runs, nor during calls of `wanted`, `done` and the log. A lane's batch
 * belongs to its thread and needs no lock. No other lock is taken while this lock is held. */
#ifndef SERVER_BATCHER_STATE_H
#define SERVER_BATCHER_STATE_H

#include "server/common/log.h"
#include "server/jobs/batcher_options.h"
#include "server/jobs/finite.h"
#include "server/jobs/lane_time.h"
#include "server/jobs/model_queue.h"
#include "server/jobs/pace.h"

#include <pthread.h>

/* What the batcher knows about one model. */
struct batcher_entry {
    struct model_queue waiting; /* the jobs of one model */
    int64_t metrics;            /* the model's index in the metrics */
    uint64_t cold;              /* bit i is set until the model's lane i has warmed up the model */
    uint64_t ready_lanes;       /* copy of model_ready_lanes. Bit i is set if the device of the model's lane i works */
    struct pace paces[JOB_KINDS]; /* by kind. Their `work` is in FLOPs. A step of generation reads all weights for a few
                                     rows, so a FLOP of generation takes longer than a FLOP of other items */
    struct pace token_paces[JOB_KINDS]; /* by kind. Their `work` is in tokens */
};

/* The items of one job in a batch. Items [first_item, first_item + n_items) of the batch are items [job_item, job_item
 * + n_items) of the job. */
struct part {
    struct job *job;
    int64_t first_item, n_items, job_item;
    int64_t tokens;
    double flops, cost;
    bool wanted; /* the result of the job's `wanted` before the run */

    /* Set after the run. */
    bool flawed;         /* a result is not finite */
    int64_t flawed_item; /* index of the item in the job */
    struct flaw flaw;
};

struct job_batch {
    struct model *model;
    struct engine_item *items; /* (max_batch_requests) */
    struct part *parts;        /* (max_batch_requests) */
    int64_t n_items, n_parts, tokens;
    int64_t kind_tokens[JOB_KINDS]; /* by kind: its part of `tokens` */
    double flops[JOB_KINDS];
    double cost[JOB_KINDS]; /* by kind: the estimated time, as item_cost returns it */
    struct job *first;      /* the job that had its turn with this batch. NULL if it was dropped */
};

/* A lane of the engine, with the thread that runs its batches. */
struct lane {
    struct batcher *batcher;
    int number;
    pthread_t thread;
    struct job_batch batch;

    pthread_cond_t work; /* signalled when `asleep` becomes false */
    bool asleep;         /* guarded by the batcher's lock */
    int64_t rounds;      /* guarded by the batcher's lock: how often the lane has looked for work */
    int64_t seen_rounds; /* guarded by the batcher's lock: `rounds` at the last call of batcher_progresses */

    /* Only the lane's thread uses the members below. */
    int64_t turns[JOB_KINDS]; /* by kind: the model whose queue the lane searches first */
    struct lane_time time;
};

struct batcher {
    struct batcher_options options;
    struct metrics *metrics;
    struct lane *lanes; /* (n_lanes) */
    int n_lanes, n_started;
    pthread_t deadline_thread;
    struct log_limit not_finite, failures; /* limits of log lines about batches */

    pthread_mutex_t lock;    /* guards the members below */
    pthread_cond_t warmed;   /* signalled when a lane has warmed up a model */
    bool warm_failed;        /* a warm-up failed since this member was set to false */
    struct error warm_error; /* the message of the first warm-up that failed */
    pthread_cond_t alarm;    /* the deadline thread waits for it, with CLOCK_MONOTONIC. Signalled when alarm_ns or
                                `stopping` changes */
    struct model **models;   /* (n_models). NULL where the place is free. The submitter of a job may read the pointer to
                                its model without the lock, because the pointer does not change before the job ends */
    struct batcher_entry *entries; /* (n_models) */
    int64_t n_models;              /* places that were ever used, at most BATCHER_MOST_MODELS. It only grows */
    struct job_list ended;         /* the deadline thread will call their `done` */
    int64_t alarm_ns; /* when to search the queues next for expired jobs. The search may begin ALARM_STEP_NS too late */
    int64_t ask_ns;   /* when to call `wanted` next for jobs that wait for slots. INT64_MAX if no job waits for slots */
    bool closing;     /* lanes end when no jobs wait */
    bool stopping;    /* the deadline thread must end */
};

/* The lock is held. The list in which the job waits, one of the three lists of its model. */
static inline struct job_queue *waiting_list(struct batcher *batcher, const struct job *job)
{
    return model_queue_list(&batcher->entries[job->model_index].waiting, job);
}

/* Whether a waiting job has its slots, or needs none, so that a lane could run it. */
static inline bool has_work(const struct batcher_entry *entry)
{
    return entry->waiting.lists[JOB_OTHER].first || entry->waiting.lists[JOB_GENERATION].first;
}

#endif
