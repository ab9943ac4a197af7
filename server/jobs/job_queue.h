/* job_queue: the jobs of one model that have items to be started, first come first, and how a job leaves it.
 *
 * A job with items in batches (running > 0) belongs to the threads that run these: others may set its status and take
 * its waiting items out of the queue, but not end it; the last of its batches to end does. Its status is JOB_OK until
 * something ends it early; what comes first stays.
 *
 * Threads: the batcher's lock is held, except in job_list_finish. */
#ifndef SERVER_JOB_QUEUE_H
#define SERVER_JOB_QUEUE_H

#include "server/jobs/job.h"

struct job_queue {
    struct job *first, *last;
    int64_t waiting_requests, waiting_tokens; /* items that were not started, and their tokens */
};

/* Jobs whose end is decided and whose `done` is to be called; linked by `next`. */
struct job_list {
    struct job *first, *last;
};

/* Has items that were not started, and so is in its queue. */
bool job_waits(const struct job *job);

/* A new job, all of whose items wait. */
void job_queue_add(struct job_queue *queue, struct job *job);

/* The next n_items of the job, which have so many tokens together, are in a batch now. */
void job_queue_start(struct job_queue *queue, struct job *job, int64_t n_items, int64_t tokens);

/* Behind all who wait, if items of it do. */
void job_queue_go_behind(struct job_queue *queue, struct job *job);

/* The items that wait won't be started. */
void job_queue_leave(struct job_queue *queue, struct job *job);

/* Its time is over: no more of its items are started. Ends the job, unless items of it run: the engine writes into its
 * memory until their batch ends. */
void job_expire(struct job_queue *queue, struct job *job, struct job_list *ended);

/* Nobody waits for it: no more of its items are started. The caller ends it when none runs. */
void job_cancel(struct job_queue *queue, struct job *job);

/* running is 0. */
void job_end(struct job *job, struct job_list *ended);

/* Calls `done` of each, and empties the list. The lock is not held. A job may be gone once its `done` was called. */
void job_list_finish(struct job_list *ended);

#endif
