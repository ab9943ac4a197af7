/* streams: the order of the work on streams. Only the shim's own files include it. */
#ifndef TESTS_CUDA_SHIM_STREAMS_H
#define TESTS_CUDA_SHIM_STREAMS_H

#include "tests/cuda/shim/counters.h"
#include "tests/cuda/shim/runtime.h"

#include <mutex>

namespace shim
{
/* Guards all state of the shim, except the threads of blocks. */
extern std::recursive_mutex mutex;
typedef std::lock_guard<std::recursive_mutex> guard;

/* Sets the error that cudaGetLastError returns to this thread. Returns it. */
cudaError_t fail(cudaError_t error);

/* Whether this thread captures a graph. */
bool is_capturing();

/* For calls that are forbidden during a capture: ends a capture of this thread, and returns the call's error. Else
 * returns cudaSuccess. */
cudaError_t refuse_in_capture();

bool is_pinned_memory(const void *memory, size_t bytes);

/* Device memory is accessible only between open_memory and close_memory, which enclose the work of streams. */
void open_memory();
void close_memory();

/* Runs all work that is queued on the current device. */
void run_work();
void drop_work(); /* drops this work instead; it counts as done */

void count(enum counter counter);

/* Called by running work: it takes this time, as events measure it. */
void pass(float milliseconds);
} // namespace shim

#endif
