/* batcher: runs jobs in batches. A job is a list of items of one request (job.h). Jobs wait in the queue of their
 * model. A lane is a place where the engine runs one batch at a time (engine.h). The batcher has one thread for each
 * lane. An idle lane starts a job at once. Jobs that arrive while all lanes are busy form the next batch together.
 * Models that share a lane use it in turn.
 *
 * Fairness: jobs are served in the order of their arrival. Each job adds as many items to a batch as the batch has room
 * for. The first job may fill a whole batch. After that, all waiting jobs that have fewer tokens overtake the remaining
 * items of the first job. So a small job waits for the running batches, and for one or two batches of each larger job
 * before it. Jobs of equal size are completed one after another, because all of them would end late if they alternated.
 * A batch of several items is planned to take at most max_batch_ms.
 *
 * Generation: a request that generates tokens submits one job after another, each with the next rows of its sequences.
 * Its first job may have to wait for slots (job.h). While both generation and other jobs wait, generation gets
 * generation_percent of a lane's time, and the other jobs get the rest (lane_time.h). If only one kind of jobs waits,
 * it uses all the time of the lane.
 *
 * Threads: batcher_submit, batcher_wake and the counters may be called on any thread. The batcher calls `wanted` and
 * `done` of a job without its lock. It calls `wanted` on the thread of a lane, just before items run. While a job waits
 * for slots, the deadline thread also calls `wanted`, once a second. Several threads may call `wanted` of a job at
 * once. The batcher calls `done` exactly once for each submitted job, on a lane's thread or on the deadline thread.
 * Both functions must return quickly. */
#ifndef SERVER_BATCHER_H
#define SERVER_BATCHER_H

#include "server/jobs/batcher_options.h"
#include "server/jobs/job.h"

#include <stdint.h>

struct batcher;

/* Starts the threads. Returns when each thread has warmed up the models of its lane (model_warm_up). The models must
 * outlive the batcher, or be removed with batcher_remove. The array `models` (n_models, at most BATCHER_MAX_MODELS) is
 * copied. Model models[i] has index i in the batcher and in the metrics. `metrics` may be NULL. */
#define BATCHER_MAX_MODELS 1000
struct metrics;
int batcher_open(struct model **models, int64_t n_models, const struct batcher_options *options,
                 struct metrics *metrics, struct batcher **batcher, struct error *error);

/* Adds a model while the batcher runs. Returns when the lanes of the model have warmed up the model, between their
 * batches. `metrics` is the model's index in the metrics. On success sets *index to its index in the batcher. On
 * failure the model does not belong to the batcher. Only one thread at a time may call batcher_add. */
int batcher_add(struct batcher *batcher, struct model *model, int64_t metrics, int64_t *index, struct error *error);

/* Removes a model. All its jobs must have ended, and all its slots must be free. Afterwards no thread of the batcher
 * uses the model. */
void batcher_remove(struct batcher *batcher, int64_t index);

/* Call it when a device works again, so that its sleeping lanes look for work. Any thread may call it. */
void batcher_wake(struct batcher *batcher);

/* Whether each lane has made progress since the last call: it has looked for work again, or has nothing to do. Only one
 * thread may call batcher_progresses. */
bool batcher_progresses(struct batcher *batcher);

/* Replaces these members of the options. Jobs that are already in a queue stay there. Any thread may call it. */
void batcher_set_limits(struct batcher *batcher, int64_t max_queue_tokens, int64_t max_queue_requests,
                        int64_t max_queue_ms);

/* Cancels jobs that wait for slots, runs all other accepted jobs, ends the threads and frees the batcher. NULL does
 * nothing. `done` and `wanted` must not call batcher_close. While it runs, only `done` may call batcher_submit, and
 * only for a job that continues a request. Each request must give back its slots before the `done` of its last job
 * returns. */
void batcher_close(struct batcher *batcher);

enum submit_status {
    SUBMIT_OK,
    SUBMIT_FULL, /* the job does not fit in its queue, or would wait too long there. The HTTP status is 429 */
};

/* If the result is SUBMIT_OK, the batcher calls `done`, possibly before batcher_submit returns. Otherwise the batcher
 * never calls `done`, and the job still belongs to the caller. */
enum submit_status batcher_submit(struct batcher *batcher, int64_t model_index, struct job *job);

/* Gives back slots of a job whose has_slots is true. Any thread may call it, also within `done`. */
void batcher_give_slots(struct batcher *batcher, int64_t model_index, int64_t count, const int64_t *slots);

/* The current numbers of jobs that wait for one model. */
struct batcher_depth {
    int64_t requests, tokens;  /* number of waiting items, and their tokens */
    int64_t waiting_for_slots; /* number of these items that wait for slots */
    /* Number of slots, and number of slots in use. Both are 0 if jobs do not wait for slots. */
    int64_t slots, slots_used;
};
struct batcher_depth batcher_depth(struct batcher *batcher, int64_t model_index);

/* The estimated time in seconds until the model's queue is empty, from 1 to 3600. It is used for the header
 * Retry-After. */
int64_t batcher_retry_after_s(struct batcher *batcher, int64_t model_index);

#endif
