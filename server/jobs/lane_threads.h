/* lane_threads: the threads of the lanes. Each thread warms up the models of its lane, and then runs one batch after
 * another (batch.h). */
#ifndef SERVER_LANE_THREADS_H
#define SERVER_LANE_THREADS_H

#include "server/jobs/batcher_state.h"

/* Starts a thread for each lane. Returns -1 if a thread cannot be created. The caller must then call lane_threads_stop,
 * which ends the other threads. */
int lane_threads_start(struct batcher *batcher, struct error *error);

/* Waits until the lanes have warmed up all models. Returns -1 with the first error if a warm-up failed. The lock is
 * held, except while the function waits. */
int lane_threads_wait(struct batcher *batcher, struct error *error);

/* Makes the lanes end when no jobs wait, and joins their threads. */
void lane_threads_stop(struct batcher *batcher);

#endif
