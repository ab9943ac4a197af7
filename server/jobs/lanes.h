/* lanes: finds lanes that can run a waiting job, and wakes them.
 *
 * Sleep: a lane sleeps when no queue contains a job that it can run. Each lane runs the batches of a model on one
 * device. The lane can run the model if this device works (model_ready_lanes). batcher_submit wakes one sleeping lane
 * that can run the new job. A lane that leaves a job in a queue also wakes such a lane. When a device works again,
 * batcher_wake wakes lanes that can now run a waiting job. Each lane that wakes looks for further sleeping lanes with
 * work. If all lanes that can run a job are awake, none is woken, but each of them searches the queues again when its
 * batch ends.
 *
 * Threads: callers must hold the batcher's lock, except for lane_of_model. */
#ifndef SERVER_LANES_H
#define SERVER_LANES_H

#include "server/jobs/batcher_state.h"

/* Copies the states of all devices to ready_lanes. A lane that leaves a job in a queue wakes another lane that can run
 * the job. Forming the batch and waking the other lane use the same copy, so no job is left without a lane. */
void lanes_look_at_devices(struct batcher *batcher);

/* The number of the lane among the lanes of the model. -1 if the lane does not serve the model. */
int lane_of_model(const struct lane *lane, const struct model *model);

/* Whether the lane serves the model and the lane's device works. While the batcher closes, the device need not work:
 * the engine then runs the batch on the CPU, and the model's other lanes may already have ended. */
bool lane_runs(const struct lane *lane, int64_t model_index);

/* Whether the lane may run a waiting job. The states of generated sequences are on one device (job.home). A job with
 * such sequences waits for a lane of this device, as long as the device works. */
bool lane_takes(const struct lane *lane, const struct job *job);

/* Whether the lane may run a waiting job of this kind: lane_has_work_of of one model, lane_has_work of any model. */
bool lane_has_work_of(const struct lane *lane, int64_t model_index, enum job_kind kind);
bool lane_has_work(const struct lane *lane, enum job_kind kind);

/* Wakes the first sleeping lane that may run a waiting job of the model. */
void lanes_wake_one(struct batcher *batcher, int64_t model_index);

/* Wakes a lane for each model with waiting jobs. */
void lanes_wake(struct batcher *batcher);

/* Call it when slots of the model may have become free. Gives slots to jobs that wait for them, and wakes a lane for
 * these jobs. */
void lanes_assign_slots(struct batcher *batcher, int64_t model_index);

/* Sleeps until another thread wakes the lane. The lock is released meanwhile. */
void lane_sleep(struct lane *lane);

#endif
