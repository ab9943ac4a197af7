/* waiting: how a lane's thread waits for its batch. One that sleeps until an interrupt wakes it learns of its results
 * 20 to 100 microseconds late, in virtual machines rather the latter; one that asks all the time keeps a core busy. So
 * a thread looks now and then while the end is far, asks all the time around the moment when the last batch of the
 * class had taken as long, and sleeps when that has passed. */
#ifndef ENGINE_CUDA_WAITING_H
#define ENGINE_CUDA_WAITING_H

#include "engine/cuda/shape.h"

#include <cuda_runtime.h>

#define KNOWN_CLASSES 128

/* How long the last batch of a class took, from the end of its submission to its results, batches before it included;
 * by the class's hash: one with the same place takes it. */
struct durations {
    uint64_t classes[KNOWN_CLASSES];
    int64_t nanoseconds[KNOWN_CLASSES]; /* 0: not known */
};

/* Waits for the event, of a batch of that class that was just submitted, and notes how long that took. */
cudaError_t wait_for_batch(struct durations *durations, uint64_t class_hash, cudaEvent_t event);

#endif
