/* half: converts bf16 and f16 to float, and back. */
#ifndef TESTS_CUDA_PTX_HALF_H
#define TESTS_CUDA_PTX_HALF_H

#include "tests/cuda/ptx/lanes.h"

namespace ptx
{
static inline float to_float(bf16 x)
{
    return std::bit_cast<float>((uint32_t)x.bits << 16);
}

/* The exponent biases of f16 and float differ by 112. Infinities and NaNs have all bits of the exponent set. */
static inline float to_float(f16 x)
{
    uint32_t size = (x.bits & 0x7fffu) << 13, sign = (x.bits & 0x8000u) << 16;
    float scaled = std::bit_cast<float>(size) * 0x1p112f;
    uint32_t bits = size >= 0x0f800000u ? size | 0x7f800000u : std::bit_cast<uint32_t>(scaled);
    return std::bit_cast<float>(bits | sign);
}

/* Rounds to the nearest value with ties to even, or towards 0 if to_zero. NaNs become 0x7fff. */
template <bool to_zero> static inline bf16 to_bf16(float x)
{
    uint32_t bits = std::bit_cast<uint32_t>(x);
    if (x != x)
        return {0x7fff};
    return {(uint16_t)((to_zero ? bits : bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}

template <bool to_zero> static inline f16 to_f16(float x)
{
    uint32_t bits = std::bit_cast<uint32_t>(x), size = bits & 0x7fffffff, sign = bits >> 16 & 0x8000;
    if (x != x)
        return {0x7fff};
    if (size >= 0x47800000u) /* 2^16 */
        return {(uint16_t)(sign | (to_zero && size < 0x7f800000u ? 0x7bff : 0x7c00))};
    if (size < 0x33000000u) /* less than half of the smallest subnormal number */
        return {(uint16_t)sign};
    uint32_t exponent = size >> 23, fraction = (size & 0x7fffff) | 0x800000;
    uint32_t drop = exponent < 113 ? 126 - exponent : 13; /* number of fraction bits that f16 cannot store */
    uint32_t kept = exponent < 113 ? fraction >> drop : (size - (112u << 23)) >> 13;
    uint32_t rest = fraction & ((1u << drop) - 1), tie = 1u << (drop - 1);
    if (!to_zero && (rest > tie || (rest == tie && kept & 1)))
        kept++; /* a carry may increase the exponent, even to infinity */
    return {(uint16_t)(sign | kept)};
}
} // namespace ptx

#endif
