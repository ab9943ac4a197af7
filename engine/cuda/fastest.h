/* fastest: measures which of several algorithms takes the least time on the device. */
#ifndef ENGINE_CUDA_FASTEST_H
#define ENGINE_CUDA_FASTEST_H

#include "engine/cuda/run.h"

#include <functional>

struct stopwatch {
    cudaEvent_t begin, end;
};

/* Whether it succeeds or not, stopwatch_free is owed. */
int stopwatch_open(struct stopwatch *watch, struct error *error);
void stopwatch_free(struct stopwatch *watch);

/* Launches the algorithm with that number on the run's stream. Returns false if it does not run. */
typedef std::function<bool(int)> launch_algorithm;

/* Returns the fastest of `count` algorithms, or the first if none is clearly faster. Measuring ends when
 * run->tuning_milliseconds are used up; the time taken is subtracted from them. Without any time the first is returned.
 * -1: none of the measured algorithms runs, or the device failed; then run->status has the error.
 *
 * run->submitting is held while algorithms are launched, but not while they run. Batches are submitted to the same
 * stream after them, so the memory that they share is safe. One thread for each device at a time. */
int find_fastest(struct cuda_run *run, struct stopwatch *watch, int count, const launch_algorithm &launch);

#endif
