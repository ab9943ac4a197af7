/* choice: finds the largest of many values, in descending order. A value and its column are combined into one number,
 * the rank. A larger value has a higher rank. A NaN has the highest rank. Of equal values, the lower column has the
 * higher rank. Each search finds the highest rank below the rank that the previous search found. So found values need
 * not be marked or moved. */
#ifndef ENGINE_CUDA_CHOICE_H
#define ENGINE_CUDA_CHOICE_H

#include "engine/cuda/gpu.h"

#define BEST_OF_ALL 0xffffffffffffffffull /* higher than every rank */

static __device__ __forceinline__ unsigned long long rank_of(float value, int64_t column)
{
    uint32_t bits = __float_as_uint(value + 0.0f); /* -0 becomes 0 */
    uint32_t order = isnan(value) ? 0xffffffffu : bits >> 31 ? ~bits : bits | 0x80000000u;
    return (unsigned long long)order << 32 | (0xfffffffeu - (uint32_t)column);
}

static __device__ __forceinline__ int64_t column_of(unsigned long long rank)
{
    return 0xfffffffeu - (uint32_t)rank;
}

/* Returns the highest rank in the warp to each of its threads. */
static __device__ __forceinline__ unsigned long long best_of_warp(unsigned long long rank)
{
    for (int apart = WARP / 2; apart > 0; apart /= 2) {
        unsigned long long other = __shfl_xor_sync(WHOLE_WARP, rank, apart);
        rank = other > rank ? other : rank;
    }
    return rank;
}

/* Returns the highest rank below `last` among x(0) … x(count - 1). All threads of a warp must call it, and each gets
 * the result. */
template <typename Values>
static __device__ unsigned long long next_best(Values x, int64_t count, unsigned long long last)
{
    unsigned long long best = 0;
    for (int64_t i = warp_thread(); i < count; i += WARP) {
        unsigned long long rank = rank_of(x(i), i);
        if (rank < last && rank > best)
            best = rank;
    }
    return best_of_warp(best);
}

#endif
