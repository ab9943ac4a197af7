/* streams: the order of the work on streams. Only the shim's own files and tests/cuda/ptx/registration.cpp include this
 * header. */
#ifndef TESTS_CUDA_SHIM_STREAMS_H
#define TESTS_CUDA_SHIM_STREAMS_H

#include "tests/cuda/shim/counters.h"
#include "tests/cuda/shim/runtime.h"

#include <mutex>

namespace shim
{
/* Guards devices, memory, streams, events and counters. Running blocks, rules of faults, and the launches of each
 * kernel have other locks. */
extern std::recursive_mutex mutex;
typedef std::lock_guard<std::recursive_mutex> guard;

/* Stores the error for this thread's next cudaGetLastError, and returns the error. */
cudaError_t fail(cudaError_t error);

/* Returns whether this thread captures a graph. */
bool is_capturing();

/* For calls that are forbidden during a capture. If this thread captures, marks the capture as failed, and returns
 * cudaErrorStreamCaptureUnsupported. Otherwise returns cudaSuccess. */
cudaError_t refuse_in_capture();

bool is_pinned_memory(const void *memory, size_t bytes);

/* The address sanitizer allows accesses to device memory only between open_memory and close_memory. The shim calls them
 * before and after the work of streams runs. */
void open_memory();
void close_memory();

/* Runs all work that is queued on the current device. */
void run_work();
void drop_work(); /* drops all queued work instead. The work counts as done */

void count(enum counter counter);

/* Advances the simulated time, which events measure. Running work calls this function. */
void pass(float milliseconds);
} // namespace shim

#endif
