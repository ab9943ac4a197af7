/* job: items of one request, all for one model, from batcher_submit until `done`. Most requests have one job. A request
 * that generates tokens has one job after another.
 *
 * The batcher splits a large job into several batches, if its tokens exceed the limit of a batch. Each item has its own
 * memory for results, so the order of the items does not matter. */
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

/* Kinds of work that share a lane (lane_time.h). */
enum job_kind {
    JOB_OTHER,
    JOB_GENERATION, /* rows of sequences that are being generated. They are rows of prompts or of new tokens */
};
#define JOB_KINDS 2

#define HOMELESS (-1)

struct job {
    /* Set by the code that submits the job. The members and their memory must stay valid until `done`. */
    struct engine_item *items;       /* each must have passed model_check */
    int64_t n_items;                 /* >= 1 */
    int64_t deadline_ns;             /* time of CLOCK_MONOTONIC. 0 if there is no deadline */
    bool (*wanted)(struct job *job); /* called just before items run, and once a second while the job waits for slots.
                                        If it returns false, the items that have not run are dropped. NULL means always
                                        true */
    void (*done)(struct job *job);
    void *context;
    bool continues; /* true if the request's previous job has just ended. Such a job is accepted even if the queue is
                       full. Its times and tokens are added to those of the previous job */
    enum job_kind kind;

    /* If n_slots > 0, the job waits until n_slots slots of the model are free, and then takes all of them at once. The
     * batcher writes their numbers to `slots`, and sets has_slots. Slot i is for item i. It replaces items[i].slot,
     * unless this member is 0. The slots belong to the request until batcher_give_slots, even if the job fails. n_slots
     * is 0 or n_items, and at most the number of slots of the model. If the model has no slots, the job does not wait,
     * and gets none. */
    int64_t n_slots;
    int64_t *slots;       /* (n_slots): receives the numbers of the slots */
    bool has_slots;       /* whether the job has its slots. false at first */
    int64_t later_tokens; /* tokens that the request's later jobs will certainly have. They count as waiting tokens
                             while the job waits for slots */

    /* Set by the batcher. Read them in `done` or later. */
    enum job_status status;
    struct error error;
    int64_t submitted_ns, started_ns, finished_ns; /* times of CLOCK_MONOTONIC. started_ns is the start of the
                                                      request's first batch, or 0 if it had none */
    int64_t inference_ns;                          /* sum of the times of all batches with items of this job */
    int64_t batches;                               /* number of these batches */
    int64_t batch_items;                           /* number of items in the largest of these batches */
    int64_t tokens;                                /* sum of model_item_tokens */

    /* Private to the batcher. */
    struct job *next, *previous;
    /* The next job in the list of jobs whose `wanted` is being called while they wait for slots. */
    struct job *next_asked;
    bool unwanted; /* `wanted` returned false in the latest round of ask_slotless (deadlines.c) */
    int64_t model_index;
    int home;               /* the device with the states of the job's sequences, as a number among the devices of the
                               model. HOMELESS if no batch with its slots was formed yet */
    int64_t next_item;      /* items with a lower index were started */
    int64_t waiting_tokens; /* tokens of the items that were not started */
    int64_t running; /* number of items in batches that are being formed or are running. It is one higher while the
                        deadline thread calls `wanted`, so that no other thread ends the job */
};

#endif
