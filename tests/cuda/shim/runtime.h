/* runtime: what the parts of the shim's runtime share. The sources of this folder, except threads.cpp, are compiled
 * over this folder's cuda_runtime.h, for kernels that g++ compiled, and over NVIDIA's, for kernels that nvcc compiled
 * (tests/cuda/ptx). Both launch their kernels by `launch`. */
#include <cuda_runtime.h> /* before the guard: the shim's own includes this header, after its types */
#ifndef TESTS_CUDA_SHIM_RUNTIME_H
#define TESTS_CUDA_SHIM_RUNTIME_H

#include <cstddef>
#include <functional>

namespace shim
{
/* The size of a launch. Dynamic shared memory is that of each block. */
struct grid {
    dim3 blocks, threads;
    size_t shared_bytes;
};

/* Checks the launch of a kernel, and queues it. `run` runs all threads. */
cudaError_t launch(const cudaLaunchConfig_t &configuration, const void *kernel, std::function<void(const grid &)> run);

/* The shared memory that a kernel has in addition to that of its launches. 0 if it is unknown. */
size_t static_shared_bytes(const void *kernel);

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/* Whether all of it is in one allocation of the current device. */
bool is_device_memory(const void *memory, size_t bytes);

/* The number SHIM_SEED, which chooses the order of threads, blocks and streams. 0 if it is not set. */
unsigned seed_of_order();

[[noreturn]] void die(const char *what);
} // namespace shim

#endif
