/* waiting: how a lane's thread waits for its batch. A thread that sleeps until an interrupt wakes it learns of the end
 * 20 microseconds late, in virtual machines up to 100. A thread that polls keeps a core busy.
 *
 * So the thread expects the batch to take as long as the last one of its class. It looks now and then while the end is
 * far, polls around the expected end, and sleeps if the batch takes longer. */
#ifndef ENGINE_CUDA_WAITING_H
#define ENGINE_CUDA_WAITING_H

#include "engine/cuda/shape.h"

#include <cuda_runtime.h>

#define KNOWN_CLASSES 128

/* How long the last batch of a class took from submission to results, with the batches before it. A class has a place
 * by its hash, and loses it to another class with the same place. */
struct durations {
    uint64_t classes[KNOWN_CLASSES];
    int64_t nanoseconds[KNOWN_CLASSES]; /* 0: not known */
};

/* Waits for the event at the end of a batch of the class. The batch was just submitted. Records the batch's duration.
 */
cudaError_t wait_for_batch(struct durations *durations, uint64_t class_hash, cudaEvent_t event);

#endif
