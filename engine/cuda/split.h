/* split: products of floats on tensor cores. Tensor cores multiply TF32 numbers, which have 10 bits of fraction. A
 * float has 23. So each float is split into the sum of two TF32 numbers, high + low, and
 *
 *     a b = high(a) high(b) + (low(a) high(b) + high(a) low(b)) + low(a) low(b)
 *
 * The last term is left out. It is at most 2^-22 of the product. Tensor cores round sums towards zero, so a long sum in
 * them would lose digits. Therefore a tensor core adds only 8 products high(a) high(b), starting from 0, and the result
 * is added to `large` as a float, rounded to nearest. The other two products are at most 2^-11 times as large, so
 * tensor cores add them up in `small`. The method is that of Ootomo and Yokota, "Recovering single precision accuracy
 * from Tensor Cores while surpassing the FP32 theoretical peak performance" (arXiv 2203.03341).
 *
 * Special values: a result that is infinite or NaN in float arithmetic is also infinite or NaN with split floats. There
 * are two limits. A number of magnitude 3.4020e38 or more counts as infinite, because its high part is. The low part of
 * a number below 2^-115 loses bits below 2^-136. */
#ifndef ENGINE_CUDA_SPLIT_H
#define ENGINE_CUDA_SPLIT_H

#include "engine/cuda/tensor.h"

#define SPLIT_DEPTH 8 /* columns of A, and rows of B, that one instruction multiplies */

/* N elements of a fragment (tensor.h), split. */
template <int N> struct split {
    uint32_t high[N], low[N];
};

/* Splits floats. The high part is the nearest TF32 number. The low part is the rest, which has at most 12 bits. Its
 * last bit is cut off. The low part of an infinity or NaN is NaN. */
template <int N> static __device__ __forceinline__ void split_of(struct split<N> *parts, const uint32_t (&bits)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) {
        parts->high[i] = (bits[i] + 0x1000) & 0xffffe000;
        parts->low[i] = __float_as_uint(__uint_as_float(bits[i]) - __uint_as_float(parts->high[i])) & 0xffffe000;
    }
}

/* Loads and splits a fragment of A, or two of B. A line is a row of A or a column of B. Lines are rows in shared
 * memory. For A, thread i passes the address of element i / 16 * 4 of line i % 16. For B, it passes that of element i /
 * 8 % 2 * 4 of line i / 16 * 8 + i % 8. */
static __device__ __forceinline__ void split_load(struct split<4> *parts, const float *line)
{
    uint32_t bits[4];
    load_matrices(bits, line);
    split_of(parts, bits);
}

/* large + small += A B, for A (16, 8), and for columns [8 n, 8 n + 8) of B (8, 16). The sums are (16, 8). */
static __device__ __forceinline__ void split_multiply_add(float (&large)[4], float (&small)[4],
                                                          const struct split<4> &a, const struct split<4> &b, int n)
{
    float sum[4] = {};
    multiply_add_tf32(small, a.low, b.high[2 * n], b.high[2 * n + 1]);
    multiply_add_tf32(small, a.high, b.low[2 * n], b.low[2 * n + 1]);
    multiply_add_tf32(sum, a.high, b.high[2 * n], b.high[2 * n + 1]);
#pragma unroll
    for (int i = 0; i < 4; i++)
        large[i] += sum[i];
}

/* The result of a sum. If `large` is infinite, `small` may be NaN, and is ignored. If an element was NaN, `small` is
 * NaN.
 */
static __device__ __forceinline__ float split_sum(float large, float small)
{
    return isinf(large) ? large : large + small;
}

/* Starts the copies of (ROWS, COLUMNS) floats to shared memory by THREADS threads. `from` has `there` rows of `columns`
 * floats. Further rows and columns become zeros. If `packed`, the rows of `from` begin and end at multiples of 16
 * bytes. */
template <int ROWS, int COLUMNS, int THREADS, int STRIDE>
static __device__ __forceinline__ void split_copy_rows(float (*to)[STRIDE], const float *from, int64_t stride,
                                                       int64_t there, int64_t columns, bool packed)
{
    constexpr int packs = COLUMNS / PACK<float>, step = THREADS / packs;
    static_assert(ROWS % step == 0, "each thread copies the same number of packs");
    int first = (int)threadIdx.x / packs, c = (int)threadIdx.x % packs * PACK<float>;
#pragma unroll
    for (int i = 0; i < ROWS; i += step) {
        const float *pack = from + (first + i) * stride + c;
        bool inside = first + i < there && c < columns;
        if (packed) {
            copy_async(&to[first + i][c], inside ? pack : from, inside);
            continue;
        }
        for (int j = 0; j < PACK<float>; j++)
            to[first + i][c + j] = first + i < there && c + j < columns ? pack[j] : 0;
    }
}

#endif
