/* job_queue: the jobs of one model that have items to start. A new job becomes the last one. After its turn, a job lets
 * smaller jobs pass. This file also contains the functions that end jobs.
 *
 * While items of a job are in batches (running > 0), the engine writes to the job's memory. During this time, only the
 * thread of the job's last batch may end the job. Other threads may set its status and remove its waiting items. The
 * status stays JOB_OK unless the job ends early. The first other status is never replaced.
 *
 * Threads: callers must hold the batcher's lock, except for job_list_finish. */
#ifndef SERVER_JOB_QUEUE_H
#define SERVER_JOB_QUEUE_H

#include "server/jobs/job.h"

struct job_queue {
    struct job *first, *last;
    int64_t waiting_requests, waiting_tokens; /* number of waiting items in the queue, and the number of their tokens */
};

/* A list of jobs that have ended, linked by `next`. Their `done` has not been called yet. */
struct job_list {
    struct job *first, *last;
};

/* Whether the job has waiting items. A job is in its queue exactly as long as this is true. */
bool job_waits(const struct job *job);

/* Appends a job whose items all wait. */
void job_queue_add(struct job_queue *queue, struct job *job);

/* Moves the next n_items items of the job from waiting to running. `tokens` is the sum of their tokens. */
void job_queue_start(struct job_queue *queue, struct job *job, int64_t n_items, int64_t tokens);

/* Moves the job behind the last smaller job of its queue. A job is smaller if it has fewer waiting tokens, or equally
 * many and is older. Does nothing if no smaller job is behind it, or if the job has no waiting items. */
void job_queue_let_pass(struct job_queue *queue, struct job *job);

/* Removes the job from the queue, so that it can be added to another queue. Its items still count as waiting items of
 * the job. */
void job_queue_take_out(struct job_queue *queue, struct job *job);

/* Removes the job from the queue, and its waiting items from the job. These items are never started. */
void job_queue_leave(struct job_queue *queue, struct job *job);

/* Call it when the job's deadline has passed. Removes the waiting items. Ends the job, unless some of its items are
 * running. */
void job_expire(struct job_queue *queue, struct job *job, struct job_list *ended);

/* Sets the status JOB_CANCELLED if the job has not ended otherwise, and removes the waiting items. If no items are
 * running, the caller must call job_end. */
void job_cancel(struct job_queue *queue, struct job *job);

/* Ends a job that has no running items, by adding it to `ended`. */
void job_end(struct job *job, struct job_list *ended);

/* Calls `done` of each job, and empties the list. The caller must not hold the lock. `done` may free its job. */
void job_list_finish(struct job_list *ended);

#endif
