/* fastest: which of several algorithms takes the least time on the device. */
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

/* Launches the algorithm of that number on the run's stream; false: it does not run. */
typedef std::function<bool(int)> launch_algorithm;

/* Which of `count` is the fastest, as far as run->tuning_milliseconds last, out of which the time is taken; the first
 * where nothing is timed, and where none is clearly faster. -1: none of those tried runs, or the device failed, which
 * run->status says.
 *
 * run->submitting is held while they are launched, and not while they run: the stream keeps them, and the memory that
 * they share, apart from batches, which are submitted behind them. One thread of a device at a time. */
int find_fastest(struct cuda_run *run, struct stopwatch *watch, int count, const launch_algorithm &launch);

#endif
