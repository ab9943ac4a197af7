/* shim: half precision, with 5 bits of exponent and 10 bits of fraction (see cuda_runtime.h). */
#ifndef TESTS_CUDA_SHIM_CUDA_FP16_H
#define TESTS_CUDA_SHIM_CUDA_FP16_H

#include <cuda_runtime.h>

struct __half {
    uint16_t bits;
};

/* Rounds to nearest, ties to even. From 65520 on, the result is infinity. Every NaN becomes the same NaN. */
static inline __half __float2half_rn(float x)
{
    uint16_t sign = std::signbit(x) ? 0x8000 : 0;
    float size = std::fabs(x);
    if (std::isnan(x))
        return {0x7fff};
    if (size >= 65520.0f)
        return {(uint16_t)(sign | 0x7c00)};
    /* Subnormal: a multiple of 2^-24. nearbyint rounds ties to even. If it rounds up to the smallest normal number, the
     * bits are also right. */
    if (size < 0x1p-14f)
        return {(uint16_t)(sign | (uint16_t)std::nearbyint(size * 0x1p24f))};
    int exponent;
    /* The fraction is in [0.5, 1), and is rounded to 11 bits. A carry increases the exponent. */
    float fraction = std::frexp(size, &exponent);
    uint32_t digits = (uint32_t)std::nearbyint(std::ldexp(fraction, 11));
    return {(uint16_t)(sign | (((uint32_t)(exponent + 14 - 1) << 10) + digits))};
}

static inline float __half2float(__half x)
{
    int exponent = x.bits >> 10 & 31, digits = x.bits & 0x3ff;
    float size = exponent == 31 ? (digits ? NAN : INFINITY)
                 : exponent     ? std::ldexp((float)(digits | 0x400), exponent - 25)
                                : std::ldexp((float)digits, -24);
    return x.bits >> 15 ? -size : size;
}

#endif
