/* runtime: common parts of the simulated CUDA runtime (the shim). The sources of this folder, except threads.cpp, are
 * compiled in two ways. With this folder's cuda_runtime.h, they run kernels that g++ compiled. With NVIDIA's header,
 * they run kernels that nvcc compiled (tests/cuda/ptx). In both cases, `launch` launches the kernels. */
#include <cuda_runtime.h> /* before the guard, because the shim's cuda_runtime.h includes this header after its types */
#ifndef TESTS_CUDA_SHIM_RUNTIME_H
#define TESTS_CUDA_SHIM_RUNTIME_H

#include <cstddef>
#include <functional>

namespace shim
{
/* The size of a launch. shared_bytes is the dynamic shared memory of each block. */
struct grid {
    dim3 blocks, threads;
    size_t shared_bytes;
    const void *kernel;
};

/* Checks the launch of a kernel, and queues it. The queued work calls `run`, which runs all threads of the grid. */
cudaError_t launch(const cudaLaunchConfig_t &configuration, const void *kernel, std::function<void(const grid &)> run);

/* Returns the size of a kernel's shared memory without the dynamic shared memory, in bytes. Returns 0 if the size is
 * unknown. */
size_t static_shared_bytes(const void *kernel);

cudaError_t enqueue(cudaStream_t stream, std::function<void()> work);

/* Returns true if all bytes are in one allocation of the current device. */
bool is_device_memory(const void *memory, size_t bytes);

/* Returns the value of SHIM_SEED, which determines the order of threads, blocks and streams. The default is 0. */
unsigned seed_of_order();

[[noreturn]] void die(const char *what);
} // namespace shim

#endif
