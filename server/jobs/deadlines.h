/* deadlines: the deadline thread. When a job's deadline passes, this thread removes the job's waiting items from the
 * queues. If none of its items is running, it also ends the job. So the answers to expired jobs do not wait for a
 * running batch. Once a second, the thread asks for each job that waits for slots whether the job's client is still
 * there (job.wanted). */
#ifndef SERVER_DEADLINES_H
#define SERVER_DEADLINES_H

#include "server/jobs/batcher_state.h"

/* Starts the deadline thread. After success the caller must call deadlines_stop. */
int deadlines_start(struct batcher *batcher, struct error *error);

/* Ends the deadline thread, after it has called `done` of all jobs in batcher->ended. */
void deadlines_stop(struct batcher *batcher);

/* The lock must be held for the functions below. */

/* Call it for each submitted job. Sets the alarm for the deadline of the job, if it has one. If `waits_for_slots` is
 * true, the deadline thread will also call the job's `wanted` once a second. */
void deadlines_watch(struct batcher *batcher, const struct job *job, bool waits_for_slots);

/* Cancels and ends all jobs that wait for slots. */
void deadlines_cancel_jobs_without_slots(struct batcher *batcher);

#endif
