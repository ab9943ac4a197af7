/* gpu: functions that kernels share. Rules for a kernel:
 *     - It is a static function, launched by a launch function of run.h.
 *     - The number of threads in a block is a multiple of the warp size.
 *     - Threads of a warp exchange values only by full-warp shuffles, in which every thread of the warp must take part.
 *     - A template function uses dynamic_shared_memory as its shared memory. Other functions may also use __shared__
 *       variables. The address sanitizer of the tests finds overruns of dynamic_shared_memory. In functions that are
 *       not templates, it also finds overruns of __shared__ variables. */
#ifndef ENGINE_CUDA_GPU_H
#define ENGINE_CUDA_GPU_H

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#define WARP 32
#define WHOLE_WARP 0xffffffffu

/* The shared memory of the block, aligned to 128 bytes. Its size is that of the launch. */
#ifndef dynamic_shared_memory
extern __shared__ __align__(128) char dynamic_shared_memory[];
#endif

/* The number of the thread in its warp. */
static __device__ __forceinline__ int warp_thread()
{
    return (int)(threadIdx.x % WARP);
}

/* The number of the warp in the grid's x dimension. */
static __device__ __forceinline__ int64_t warp_of_grid()
{
    return (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
}

/* The number of the thread in the grid's x dimension. */
static __device__ __forceinline__ int64_t thread_of_grid()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* Sum and maximum over the threads of a warp. Every thread gets the result. */
static __device__ __forceinline__ float warp_sum(float x)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        x += __shfl_xor_sync(WHOLE_WARP, x, apart);
    return x;
}

static __device__ __forceinline__ float warp_maximum(float x)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        x = fmaxf(x, __shfl_xor_sync(WHOLE_WARP, x, apart));
    return x;
}

/* The sequence s that contains the row: starts[s] <= row < starts[s + 1]. */
static __device__ __forceinline__ int64_t sequence_of(const int64_t *starts, int64_t n_sequences, int64_t row)
{
    int64_t sequence = 0, behind = n_sequences;
    while (behind - sequence > 1) {
        int64_t middle = (sequence + behind) / 2;
        if (starts[middle] <= row)
            sequence = middle;
        else
            behind = middle;
    }
    return sequence;
}

#endif
