/* gpu: what kernels share. A kernel is a static function (shared memory of static functions is checked for overruns by
 * the address sanitizer in tests; templates have dynamic_shared_memory instead), is launched through run.h's launch,
 * and is written for blocks of whole warps. Between lanes there are full-warp shuffles alone, so that every lane of a
 * warp that shuffles takes part. */
#ifndef ENGINE_CUDA_GPU_H
#define ENGINE_CUDA_GPU_H

#include <cuda_runtime.h>
#include <math.h>
#include <stdint.h>

#define WARP 32
#define WHOLE_WARP 0xffffffffu

/* Of the block that runs, as many bytes as it was launched with; aligned to 128. */
#ifndef dynamic_shared_memory
extern __shared__ __align__(128) char dynamic_shared_memory[];
#endif

static __device__ __forceinline__ int warp_thread()
{
    return (int)(threadIdx.x % WARP);
}

/* Which warp of the grid's x dimension. */
static __device__ __forceinline__ int64_t warp_of_grid()
{
    return (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
}

/* Which thread of it. */
static __device__ __forceinline__ int64_t thread_of_grid()
{
    return (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
}

/* Over the lanes of a warp; every lane gets it. */
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

/* The item whose rows [starts[b], starts[b + 1]) hold the row. */
static __device__ __forceinline__ int64_t item_of(const int64_t *starts, int64_t n_items, int64_t row)
{
    int64_t item = 0, behind = n_items;
    while (behind - item > 1) {
        int64_t middle = (item + behind) / 2;
        if (starts[middle] <= row)
            item = middle;
        else
            behind = middle;
    }
    return item;
}

#endif
