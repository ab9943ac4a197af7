/* fastest: measures which of several algorithms takes the least time on the device. */
#ifndef ENGINE_CUDA_FASTEST_H
#define ENGINE_CUDA_FASTEST_H

#include "engine/cuda/run.h"

#include <functional>

struct stopwatch {
    cudaEvent_t begin, end;
};

/* The caller must call stopwatch_free, even after failure. */
int stopwatch_open(struct stopwatch *watch, struct error *error);
void stopwatch_free(struct stopwatch *watch);

/* Launches the algorithm with the given number on the run's stream. Returns false if the algorithm cannot run. */
typedef std::function<bool(int)> launch_algorithm;

/* Returns the fastest of `count` algorithms, or the first algorithm if no other algorithm is clearly faster. The time
 * taken is subtracted from run->tuning_milliseconds. Measuring ends when no time is left. If no time is left at the
 * start, the function returns the first algorithm. A single algorithm is not measured. The function returns -1 if
 * `count` is 0, or if none of the measured algorithms can run. After a failure of the device, run->status contains the
 * error, and the result has no meaning.
 *
 * run->submitting is held while algorithms are launched, but not while they run. Other threads may submit batches while
 * the algorithms run. These batches run after the algorithms on the same stream, so both can use the same memory. For
 * each device, only one thread at a time may call this function. */
int fastest_find(struct cuda_run *run, struct stopwatch *watch, int count, const launch_algorithm &launch);

#endif
