/* streams: what runs when; between the shim's own files. */
#ifndef TESTS_CUDA_SHIM_STREAMS_H
#define TESTS_CUDA_SHIM_STREAMS_H

#include "tests/cuda/shim/counters.h"

#include <cuda_runtime.h>
#include <mutex>

namespace shim
{
/* Of all that the shim keeps but the blocks' threads. */
extern std::recursive_mutex mutex;
typedef std::lock_guard<std::recursive_mutex> guard;

/* What cudaGetLastError will say to this thread; the same error. */
cudaError_t fail(cudaError_t error);

/* This thread captures a graph. */
bool is_capturing();

/* cudaSuccess, or, while this thread captures, the error of a call that may not be made then: the capture is lost. */
cudaError_t refuse_in_capture();

bool is_pinned_memory(const void *memory, size_t bytes);

/* The current device's memory may be touched between these: by the streams' work. */
void open_memory();
void close_memory();

/* All that is queued on the current device. */
void run_work();
void drop_work(); /* … as if it had been done */

void count(enum counter counter);

/* The work that runs takes so long, as events see it. */
void pass(float milliseconds);
} // namespace shim

#endif
