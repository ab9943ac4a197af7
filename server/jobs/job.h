/* job: items of one request, all for one model. A job exists from batcher_submit until its `done`. Most requests have
 * one job. A request that generates tokens has several jobs, one after another.
 *
 * The batcher splits a job into several batches if its tokens exceed the limit of a batch. Each item has its own memory
 * for results, so the order of the items does not matter. */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

enum job_status {
    JOB_OK,
    JOB_EXPIRED,    /* the deadline passed before all items were computed. The HTTP status is 504 */
    JOB_CANCELLED,  /* `wanted` returned false, because the client is gone */
    JOB_FAILED,     /* the engine failed. `error` contains the reason. The HTTP status is 500 */
    JOB_NOT_FINITE, /* a result contains NaN or an infinity. The HTTP status is 500 */
};

/* The kinds of work that share a lane's time (lane_time.h). JOB_OTHER is all work other than generation. */
enum job_kind {
    JOB_OTHER,
    JOB_GENERATION, /* rows of sequences that are being generated: rows of prompts or of new tokens */
};
#define JOB_KINDS 2

#define NO_HOME (-1)

struct job {
    /* The submitter sets the members from here to later_tokens. They and their memory must stay valid until `done`. */
    struct engine_item *items;       /* n_items items. model_check must have accepted each item */
    int64_t n_items;                 /* at least 1 */
    int64_t deadline_ns;             /* time of CLOCK_MONOTONIC. 0 if there is no deadline */
    bool (*wanted)(struct job *job); /* called just before items run, and once a second while the job waits for slots.
                                        If it returns false, the items that have not run are dropped. NULL means that
                                        the job is always wanted */
    void (*done)(struct job *job);
    void *context;
    bool continues; /* true if the request's previous job has just ended. Such a job is accepted even if the queue is
                       full. Its times and tokens are added to the times and tokens of the previous job */
    enum job_kind kind;

    /* If n_slots > 0, the job waits until n_slots slots of the model are free, and then takes all of them at once. The
     * batcher writes the numbers of the slots to `slots`, and sets has_slots. slots[i] is the slot of item i, and
     * replaces items[i].slot if this member is not 0. The slots belong to the request until batcher_give_slots, even if
     * the job fails. n_slots is 0 or n_items, and at most the number of slots of the model. If the model has no slots,
     * the job does not wait, and receives no slots. */
    int64_t n_slots;
    int64_t *slots;       /* (n_slots): the batcher writes the numbers of the slots here */
    bool has_slots;       /* whether the job has received its slots. The submitter sets it to false */
    int64_t later_tokens; /* number of tokens of later jobs that the request will certainly submit. They count as
                             waiting tokens while the job waits for slots */

    /* The batcher sets the members from here to `tokens`. Read them in `done` or later. */
    enum job_status status;
    struct error error;
    int64_t submitted_ns, started_ns, finished_ns; /* times of CLOCK_MONOTONIC in nanoseconds. started_ns is the start
                                                      of the request's first batch, or 0 if no batch has started */
    int64_t inference_ns; /* sum of the times of all batches with items of this job, in nanoseconds */
    int64_t batches;      /* number of these batches */
    int64_t batch_items;  /* number of items in the largest of these batches */
    int64_t tokens;       /* sum of model_item_tokens over the items */

    /* Only the batcher uses the members below. */
    struct job *next, *previous;
    /* The next job in the list of jobs whose `wanted` is being called while they wait for slots. */
    struct job *next_asked;
    bool unwanted; /* `wanted` returned false in the latest round of ask_jobs_without_slots (deadlines.c) */
    int64_t model_index;
    int home; /* number of the device that keeps the states of the job's sequences, among the devices of the model.
                 NO_HOME if no batch of the sequences was formed yet */
    int64_t next_item;      /* index of the first item that was not started */
    int64_t waiting_tokens; /* tokens of the items that were not started */
    int64_t running; /* number of items in batches that are being formed or are running. One is added while the deadline
                        thread calls `wanted`, so that no other thread ends the job */
};

#endif
