/* threads: the threads of blocks. Only the shim's own files include it. */
#ifndef TESTS_CUDA_SHIM_THREADS_H
#define TESTS_CUDA_SHIM_THREADS_H

#include <cuda_runtime.h>

namespace shim
{
/* Runs all blocks of the grid, one after the other, each with shared_bytes of dynamic shared memory. */
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body);
} // namespace shim

#endif
