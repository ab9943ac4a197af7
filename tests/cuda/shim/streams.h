/* streams: the order of the work on streams. Only the shim's own files and tests/cuda/ptx/registration.cpp include it.
 */
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

/* Sets and returns the error. cudaGetLastError returns it to this thread. */
cudaError_t fail(cudaError_t error);

/* Whether this thread captures a graph. */
bool is_capturing();

/* For calls that are forbidden during a capture. If this thread captures, marks the capture as failed, and returns
 * cudaErrorStreamCaptureUnsupported. Otherwise returns cudaSuccess. */
cudaError_t refuse_in_capture();

bool is_pinned_memory(const void *memory, size_t bytes);

/* Device memory is accessible only between open_memory and close_memory. They enclose the work of streams. */
void open_memory();
void close_memory();

/* Runs all work that is queued on the current device. */
void run_work();
void drop_work(); /* drops the work instead, which then counts as done */

void count(enum counter counter);

/* Running work calls this to take some time. Events measure this time. */
void pass(float milliseconds);
} // namespace shim

#endif
