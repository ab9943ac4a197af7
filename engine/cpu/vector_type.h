/* vector_type: a type for vectors of WIDTH floats, with its basic functions and exp. Sources that include this header
 * are compiled once for each instruction set. VECTOR_VARIANT names the set: avx512_bf16, avx512, avx2 or baseline.
 *
 * The code uses the vector extension of GCC and clang, which compiles for any processor. It uses intrinsics only where
 * neither compiler finds the best single instruction. */
#ifndef ENGINE_CPU_VECTOR_TYPE_H
#define ENGINE_CPU_VECTOR_TYPE_H

#include "engine/cpu/vector.h"
#include "engine/plan/arithmetic.h"

#include <math.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX2__)
#define WIDTH 8
#else
#define WIDTH 4
#endif

#define JOIN_NAMES(name, variant) name##_##variant
#define JOIN(name, variant) JOIN_NAMES(name, variant)
#define VARIANT(name) JOIN(name, VECTOR_VARIANT) /* for example vector_attend_avx512 */

typedef float vector __attribute__((vector_size(4 * WIDTH)));
typedef int32_t integers __attribute__((vector_size(4 * WIDTH)));
typedef uint32_t bits __attribute__((vector_size(4 * WIDTH)));

#define INLINE static inline __attribute__((always_inline))

INLINE vector load(const float *from)
{
    vector v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void store(float *to, vector v)
{
    memcpy(to, &v, sizeof v);
}

/* A vector whose WIDTH elements are x. */
INLINE vector all(float x)
{
    return x - (vector){0};
}

/* Loads the last vector of a row: `count` floats. The other elements are `rest`. */
INLINE vector load_part(const float *from, int64_t count, float rest)
{
    vector v = all(rest);
    memcpy(&v, from, (size_t)count * sizeof(float));
    return v;
}

INLINE void store_part(float *to, vector v, int64_t count)
{
    memcpy(to, &v, (size_t)count * sizeof(float));
}

/* For each element: `yes` if x < y, and `no` otherwise. If x or y is a NaN, the result is `no`. */
INLINE vector where_less(vector x, vector y, vector yes, vector no)
{
#if defined(__AVX512F__)
    return (vector)_mm512_mask_blend_ps(_mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_LT_OQ), (__m512)no, (__m512)yes);
#elif defined(__AVX2__)
    return (vector)_mm256_blendv_ps((__m256)no, (__m256)yes, (__m256)(x < y));
#else
    integers mask = x < y;
    return (vector)(((integers)yes & mask) | ((integers)no & ~mask));
#endif
}

/* For each element the larger of x and y, or y if either is a NaN. */
INLINE vector larger(vector x, vector y)
{
#if defined(__AVX512F__)
    return (vector)_mm512_max_ps((__m512)x, (__m512)y);
#elif defined(__AVX2__)
    return (vector)_mm256_max_ps((__m256)x, (__m256)y);
#else
    return where_less(y, x, x, y);
#endif
}

/* For each element the smaller of x and y, or y if either is a NaN. */
INLINE vector smaller(vector x, vector y)
{
#if defined(__AVX512F__)
    return (vector)_mm512_min_ps((__m512)x, (__m512)y);
#elif defined(__AVX2__)
    return (vector)_mm256_min_ps((__m256)x, (__m256)y);
#else
    return where_less(x, y, x, y);
#endif
}

#define SHUFFLE __builtin_shufflevector
#if WIDTH == 16
#define ROTATE_8(v) SHUFFLE(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define ROTATE_4(v) SHUFFLE(v, v, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3)
#define ROTATE_2(v) SHUFFLE(v, v, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1)
#define ROTATE_1(v) SHUFFLE(v, v, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0)
#elif WIDTH == 8
#define ROTATE_4(v) SHUFFLE(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define ROTATE_2(v) SHUFFLE(v, v, 2, 3, 4, 5, 6, 7, 0, 1)
#define ROTATE_1(v) SHUFFLE(v, v, 1, 2, 3, 4, 5, 6, 7, 0)
#else
#define ROTATE_2(v) SHUFFLE(v, v, 2, 3, 0, 1)
#define ROTATE_1(v) SHUFFLE(v, v, 1, 2, 3, 0)
#endif

/* a b + c, rounded only once if the processor has an instruction for this. */
INLINE vector multiply_add(vector a, vector b, vector c)
{
#if defined(__AVX512F__)
    return (vector)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
    return (vector)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    return a * b + c;
#endif
}

/* The sum of the vector's floats, always in the same order. */
INLINE float sum_across(vector v)
{
#if WIDTH > 8
    v += ROTATE_8(v);
#endif
#if WIDTH > 4
    v += ROTATE_4(v);
#endif
    v += ROTATE_2(v);
    v += ROTATE_1(v);
    return v[0];
}

/* A vector whose elements are all the largest float of v. v must contain no NaN. */
INLINE vector largest_across(vector v)
{
#if WIDTH > 8
    v = larger(v, ROTATE_8(v));
#endif
#if WIDTH > 4
    v = larger(v, ROTATE_4(v));
#endif
    v = larger(v, ROTATE_2(v));
    return larger(v, ROTATE_1(v));
}

/* ---- exp ---- */

/* Computes 2^n p for p in [0.7, 1.42] and integers n. x is the number whose exponential is 2^n p. A result below 2^-126
 * becomes 0, so there are no subnormals. If x is NaN, so is the result. `shifted` is n + 1.5 * 2^23, so its low bits
 * are n. */
INLINE vector scale_by_power(vector p, vector n, vector shifted, vector x)
{
    const float least = -87.33654f;
#if defined(__AVX512F__)
    (void)shifted;
    return (vector)_mm512_maskz_scalef_ps(_mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(least), _CMP_NLT_UQ), (__m512)p,
                                          (__m512)n);
#else
    (void)n;
    vector scaled = (vector)((bits)p + ((bits)shifted << 23));
    scaled = where_less(x, all(least), all(0), scaled);
    integers number = x == x;
    return (vector)(((integers)scaled & number) | ((integers)x & ~number));
#endif
}

/* q(r) = (e^r - 1) / r for |r| <= ln 2 / 2: a minimax polynomial of degree 5. */
INLINE vector exp_quotient(vector r)
{
    vector q = all(1.406273921020e-3f);
    q = q * r + 8.379406295717e-3f;
    q = q * r + 4.166474565864e-2f;
    q = q * r + 0.166663601995f;
    q = q * r + 0.500000059605f;
    return q * r + 1.0f;
}

/* exp(x) for x <= 88.7228. vector.h states the error. Uses x = n ln 2 + r with |r| <= ln 2 / 2, and e^r = 1 + r q(r).
 * Adding 1.5 * 2^23 rounds x / ln 2 to the integer n. n ln 2 is subtracted in two parts. The first part of ln 2 has few
 * bits, so its product with n is exact. */
INLINE vector exp_bounded(vector x)
{
    const float rounder = 12582912.0f;
    vector shifted = x * 1.44269504088896341f + rounder;
    vector n = shifted - rounder;
    vector r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    return scale_by_power(exp_quotient(r) * r + 1.0f, n, shifted, x);
}

INLINE vector exp_of(vector x)
{
    return where_less(all(88.72283f), x, all(INFINITY), exp_bounded(x));
}

extern const struct vector_functions VARIANT(vector);

/* Functions of the table, defined in vector_combine.c, vector_attend.c, vector_columns.c and vector_product.c. */
void VARIANT(vector_combine)(int64_t n, enum plan_function function, const float *x, const float *z, float *y);
void VARIANT(vector_select)(int64_t n, const float *condition, const float *x, const float *z, float *y);
void VARIANT(vector_pack_keys)(const struct vector_keys *keys, float *packed);
void VARIANT(vector_attend)(const struct vector_attend *attend);
void VARIANT(vector_weigh)(int64_t n, const float *x, float *y);
void VARIANT(vector_sum_columns)(int64_t rows, int64_t columns, const float *x, int64_t x_stride, const float *mean,
                                 double *y);
void VARIANT(vector_convolve_channels)(int64_t taps, int64_t columns, const float *const *x, const float *const *w,
                                       const float *bias, float scale, float *y);
void VARIANT(vector_step_context)(int64_t rows, int64_t columns, const float *query, const float *powers,
                                  const float *value, float *context, float *y);
void VARIANT(vector_reduce)(const struct vector_reduction *reduction, int64_t n, const float *x, double *y);
void VARIANT(vector_normalise_rows)(int64_t rows, int64_t columns, const float *x, int64_t stride, const float *mean,
                                    const float *factor, const float *bias, float *y);
void VARIANT(vector_to_words)(int64_t rows, int64_t depth, enum element element, const void *x, float *words);
void VARIANT(vector_pack_weight)(int64_t columns, int64_t depth, const float *w, float *packed);
void VARIANT(vector_linear)(const struct vector_linear *linear);
void VARIANT(vector_project)(const struct vector_project *project);

#endif
