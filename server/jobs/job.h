/* job: the items of one request, all for one model, from batcher_submit until `done`.
 *
 * The batcher may run them in several batches: it splits a large request under the token budget. Each item's results go
 * to its own memory, so their order does not matter. */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

enum job_status {
    JOB_OK,
    JOB_EXPIRED,    /* its deadline passed before all its items were computed: 504 */
    JOB_CANCELLED,  /* its `wanted` returned false: the client is gone */
    JOB_FAILED,     /* the engine failed: 500, `error` says why */
    JOB_NOT_FINITE, /* a result holds NaN or an infinity: 500 */
};

struct job {
    /* Set by the submitter. These and their memory stay valid until `done`. */
    struct engine_item *items;       /* each passed model_check */
    int64_t n_items;                 /* >= 1 */
    int64_t deadline_ns;             /* CLOCK_MONOTONIC; 0: none */
    bool (*wanted)(struct job *job); /* called right before items run. false: the items that have not run are dropped;
                                        NULL: always true */
    void (*done)(struct job *job);
    void *context;

    /* Set by the batcher. Read them in `done` or later. */
    enum job_status status;
    struct error error;
    int64_t submitted_ns, started_ns, finished_ns; /* CLOCK_MONOTONIC; started: start of its first batch, or 0 */
    int64_t inference_ns;                          /* sum over all batches with items of it */
    int64_t tokens;                                /* sum of model_item_tokens */

    /* Private to the batcher. */
    struct job *next, *previous;
    int64_t model_index;
    int64_t next_item;      /* items below this index were started */
    int64_t waiting_tokens; /* of the items that were not started */
    int64_t running;        /* items in batches that are formed or run now */
};

#endif
