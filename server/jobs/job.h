/* job: what one request asks of one model, one or many items, from its submission to the batcher until its end.
 *
 * Items of a job may run in different batches (a large request is split under the token budget); each writes its
 * results in place, so order needs no putting together. */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

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

#endif
