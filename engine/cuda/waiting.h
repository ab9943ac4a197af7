/* waiting: how a lane's thread waits for the end of its batch. A thread that sleeps until an interrupt notices the end
 * 20 microseconds late, and in virtual machines up to 100 microseconds late. A thread that polls keeps a CPU core busy.
 *
 * The thread therefore expects the batch to take as long as the last batch of the same shape (shape.h). Long before the
 * expected end, it sleeps, and checks every 150 microseconds. Around the expected end, it polls. If the batch takes
 * longer, the thread sleeps until the interrupt. For a shape that was not measured yet, the expected time is 0. */
#ifndef ENGINE_CUDA_WAITING_H
#define ENGINE_CUDA_WAITING_H

#include "engine/cuda/shape.h"

#include <cuda_runtime.h>

#define KNOWN_SHAPES 128

/* How long the last batch of each shape took from submission to results, including the wait for batches that were
 * submitted before it. The hash of a shape determines its place in the table. Two shapes with the same place overwrite
 * each other. */
struct durations {
    uint64_t hashes[KNOWN_SHAPES];
    int64_t nanoseconds[KNOWN_SHAPES]; /* 0 if not measured yet */
};

/* Waits for the event at the end of a batch of the shape. Call it right after submitting the batch. Records the
 * duration of the batch.
 */
cudaError_t durations_wait(struct durations *durations, uint64_t hash, cudaEvent_t event);

#endif
