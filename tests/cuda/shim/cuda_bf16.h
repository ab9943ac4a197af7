/* shim: bfloat16, the upper half of a float (see cuda_runtime.h). */
#ifndef TESTS_CUDA_SHIM_CUDA_BF16_H
#define TESTS_CUDA_SHIM_CUDA_BF16_H

#include <cuda_runtime.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

/* Rounds to nearest, ties to even. Every NaN becomes the same NaN. */
static inline __nv_bfloat16 __float2bfloat16_rn(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (std::isnan(x))
        return {0x7fff};
    return {(uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

static inline float __bfloat162float(__nv_bfloat16 x)
{
    uint32_t bits = (uint32_t)x.bits << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

#endif
