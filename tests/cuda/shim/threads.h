/* The threads of blocks; between the shim's own files. */
#ifndef TESTS_CUDA_SHIM_THREADS_H
#define TESTS_CUDA_SHIM_THREADS_H

#include <cuda_runtime.h>

namespace shim
{
/* All blocks, one after the other, each with so much dynamic shared memory. */
void run_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body);
} // namespace shim

#endif
