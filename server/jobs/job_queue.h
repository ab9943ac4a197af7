/* job_queue: the jobs of one model with items that were not started, in the order of their arrival. Functions for the
 * end of jobs are here, too.
 *
 * While items of a job are in batches (running > 0), the engine writes into its memory. Then only the thread of its
 * last batch may end the job. Other threads may set its status and remove its waiting items. The status is JOB_OK until
 * the job ends early; the first other status stays.
 *
 * Threads: callers hold the batcher's lock, except in job_list_finish. */
#ifndef SERVER_JOB_QUEUE_H
#define SERVER_JOB_QUEUE_H

#include "server/jobs/job.h"

struct job_queue {
    struct job *first, *last;
    int64_t waiting_requests, waiting_tokens; /* items in the queue, and their tokens */
};

/* Jobs that have ended, and wait for the call of `done`. Linked by `next`. */
struct job_list {
    struct job *first, *last;
};

/* Whether items of the job wait. Exactly then the job is in its queue. */
bool job_waits(const struct job *job);

/* Appends a new job. All its items wait. */
void job_queue_add(struct job_queue *queue, struct job *job);

/* Moves the next n_items of the job, of `tokens` tokens together, from waiting to running. */
void job_queue_start(struct job_queue *queue, struct job *job, int64_t n_items, int64_t tokens);

/* Moves the job to the end of its queue if items of it wait. */
void job_queue_go_behind(struct job_queue *queue, struct job *job);

/* Removes the waiting items: they are never started. */
void job_queue_leave(struct job_queue *queue, struct job *job);

/* Call when the deadline passed: removes the waiting items. Ends the job, unless items of it run. */
void job_expire(struct job_queue *queue, struct job *job, struct job_list *ended);

/* Removes the waiting items. If no items run, the caller must call job_end. */
void job_cancel(struct job_queue *queue, struct job *job);

/* Ends a job without running items: adds it to `ended`. */
void job_end(struct job *job, struct job_list *ended);

/* Calls `done` of each job, and empties the list. The caller does not hold the lock. `done` may free its job. */
void job_list_finish(struct job_list *ended);

#endif
