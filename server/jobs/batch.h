/* batch: the batch of a lane. A lane is a place where the engine runs one batch at a time (batcher.h). The lane's
 * thread repeats these steps:
 *   1. batch_form chooses a kind of work (lane_time.h), and a model with waiting jobs of this kind. It moves items from
 *      the model's queue into the lane's batch.
 *   2. batch_drop_ended removes jobs from the batch: those whose client is gone, and those that expired or failed
 *      since step 1. Another thread has set the status of such a job.
 *   3. batch_run runs the batch, checks the results and ends the jobs that are complete.
 *
 * Turns: a lane may serve several models. After a batch of model i, it first searches the queue of model i + 1. The
 * turns of each kind of work are counted separately. */
#ifndef SERVER_BATCH_H
#define SERVER_BATCH_H

#include "server/jobs/batcher_state.h"

/* Returns false if no queue contains a job that the lane can run. The lock is held. */
bool batch_form(struct lane *lane, struct job_list *ended);

/* Drops jobs whose `wanted` returns false, and jobs that expired or failed since the batch was formed. The deadline
 * thread or another lane has set the status of such a job. The lock is not held. */
void batch_drop_ended(struct lane *lane);

/* Runs the batch, which has at least one item. The lock is not held. */
void batch_run(struct lane *lane);

#endif
