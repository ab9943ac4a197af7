/* job: the items of one request, all for one model, from batcher_submit until `done`.
 *
 * The batcher splits a large request into several batches, if the tokens exceed the limit of a batch. Each item has its
 * own memory for results, so the order of the items does not matter. */
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

/* Kinds of work that share a lane (share.h). */
enum job_kind {
    JOB_OTHER,
    JOB_GENERATION, /* rows of sequences that are generated: of their prompts, and of their new tokens */
};
#define JOB_KINDS 2

struct job {
    /* Set by the code that submits the job. The members and their memory must stay valid until `done`. */
    struct engine_item *items;       /* each must have passed model_check */
    int64_t n_items;                 /* >= 1 */
    int64_t deadline_ns;             /* time of CLOCK_MONOTONIC. 0 if there is no deadline */
    bool (*wanted)(struct job *job); /* called just before items run. If it returns false, the items that have not run
                                        are dropped. NULL means always true */
    void (*done)(struct job *job);
    void *context;
    bool continues; /* the job goes on with a request whose last job has just ended: it is accepted whatever waits, and
                       its times and tokens are added to those of the last one */
    enum job_kind kind;

    /* If n_slots > 0, the job waits until n_slots slots of the model are free, and takes all of them at once. It writes
     * their numbers to `slots`, and sets has_slots. Slot i is for item i, and becomes items[i].slot unless that is 0.
     * The slots belong to the request until batcher_give_slots, whatever becomes of the job. n_slots is 0 or n_items,
     * and at most the number of slots of the model. A model without slots gives none, and does not let the job wait. */
    int64_t n_slots;
    int64_t *slots;       /* (n_slots) */
    bool has_slots;       /* false at first */
    int64_t later_tokens; /* known tokens of the request's later jobs. They count as waiting while the job waits for
                             slots */

    /* Set by the batcher. Read them in `done` or later. */
    enum job_status status;
    struct error error;
    int64_t submitted_ns, started_ns, finished_ns; /* times of CLOCK_MONOTONIC. started_ns is the start of the
                                                      request's first batch, or 0 if it had none */
    int64_t inference_ns;                          /* sum of the times of all batches with items of this job */
    int64_t tokens;                                /* sum of model_item_tokens */

    /* Private to the batcher. */
    struct job *next, *previous;
    struct job *next_asked; /* in the list of jobs that wait for slots and whose `wanted` is called */
    bool left;              /* the result of this call was false */
    int64_t model_index;
    int64_t next_item;      /* items with a lower index were started */
    int64_t waiting_tokens; /* tokens of the items that were not started */
    int64_t running;        /* number of items in batches that are being formed or are running. And 1 while `wanted` is
                               called for a job that waits for slots */
};

#endif
