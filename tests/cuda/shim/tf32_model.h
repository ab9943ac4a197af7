/* tf32_model: d += A B for TF32, as tensor cores of NVIDIA's generation Ampere compute it according to MMA-Sim
 * (github.com/microsoft/MMA-Sim, classes mma and nv_fused_dot_add). Later generations cut off fewer bits. For each
 * element of d, first the products with rows 0 to 3 of B are added, and then the products with rows 4 to 7, as follows:
 *     1. The lower 13 bits of the operands are cleared.
 *     2. The largest exponent of d and of the four products is determined. The exponent of a product is the sum of its
 *        operands' exponents, so its significand may be up to 4. The exponent of 0 is -126.
 *     3. The five significands of d and of the products are shifted to the largest exponent, cut off after 24 bits of
 *        fraction, and added exactly.
 *     4. The sum is rounded towards zero to a float. */
#ifndef TESTS_CUDA_SHIM_TF32_MODEL_H
#define TESTS_CUDA_SHIM_TF32_MODEL_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace shim
{
constexpr int TF32_ROWS = 16, TF32_COLUMNS = 8, TF32_DEPTH = 8, TF32_AT_ONCE = 4, TF32_FRACTION = 24;

/* For functions that the compiler vectorises, with AVX2 if the processor supports it. The sanitizers need not check
 * them, because their operands are in registers. */
#define TF32_INLINE \
    __attribute__((always_inline, no_sanitize_thread, no_sanitize_address, no_sanitize_undefined)) inline

/* Eight elements of a row. The compiler computes them with vector instructions. */
typedef int32_t tf32_integers __attribute__((vector_size(TF32_COLUMNS * sizeof(int32_t))));
typedef float tf32_floats __attribute__((vector_size(TF32_COLUMNS * sizeof(float))));

/* Significands and exponents of a row. */
struct tf32_row {
    tf32_floats of;
    tf32_integers exponents;
    tf32_integers others; /* -1 for each element that tf32_add does not support, 0 for other elements. Not supported are
                             elements other than 0 whose exponent is below -50 or above 50 */
};

static TF32_INLINE void tf32_read(const void *bits_of_row, struct tf32_row *row)
{
    tf32_integers bits;
    memcpy(&bits, bits_of_row, sizeof bits);
    tf32_integers zero = (bits & 0x7fffffff) == 0, exponents = (bits >> 23 & 255) - 127;
    tf32_integers significands = ((bits & (int32_t)0x807fffff) | 0x3f800000) & ~zero;
    memcpy(&row->of, &significands, sizeof significands);
    row->exponents = zero ? -126 : exponents;
    row->others = ((exponents < -50) | (exponents > 50)) & ~zero;
}

static TF32_INLINE bool tf32_any(const tf32_integers &elements)
{
    uint64_t words[sizeof elements / sizeof(uint64_t)], any = 0;
    memcpy(words, &elements, sizeof elements);
    for (uint64_t word : words)
        any |= word;
    return any != 0;
}

/* Computes 2^exponent for each element. The result is 0 below the range of floats. */
static TF32_INLINE void tf32_powers(const tf32_integers &exponents, tf32_floats *powers)
{
    tf32_integers bits = exponents + 127;
    bits = (bits > 0 ? bits : 0) << 23;
    memcpy(powers, &bits, sizeof bits);
}

/* Steps 2 to 4 for a row of d, if tf32_add supports all elements. Uses four elements of a, beginning with `first`, and
 * four rows of b. */
static TF32_INLINE void tf32_add(const struct tf32_row &a, int first, const struct tf32_row *b,
                                 const struct tf32_row &old, float *d)
{
    tf32_integers most = old.exponents, exponents[TF32_AT_ONCE], sum, magnitude, back;
    tf32_floats power, result;
    for (int l = 0; l < TF32_AT_ONCE; l++) {
        exponents[l] = a.exponents[first + l] + b[l].exponents;
        most = exponents[l] > most ? exponents[l] : most;
    }
    tf32_powers(old.exponents - most + TF32_FRACTION, &power);
    sum = __builtin_convertvector(old.of * power, tf32_integers);
    for (int l = 0; l < TF32_AT_ONCE; l++) {
        tf32_powers(exponents[l] - most + TF32_FRACTION, &power);
        sum += __builtin_convertvector(a.of[first + l] * b[l].of * power, tf32_integers);
    }
    magnitude = sum < 0 ? -sum : sum;
    result = __builtin_convertvector(magnitude, tf32_floats); /* the conversion rounds to nearest */
    back = __builtin_convertvector(result, tf32_integers);
    tf32_integers bits;
    memcpy(&bits, &result, sizeof bits);
    bits += back > magnitude; /* subtracts 1 if the conversion rounded up */
    memcpy(&result, &bits, sizeof bits);
    tf32_powers(most - TF32_FRACTION, &power);
    result = sum < 0 ? -result * power : result * power;
    memcpy(d, &result, sizeof result);
}

/* Returns the significand of x = significand * 2^exponent. The exponent is at least -126. */
static inline double tf32_significand(double x, int *exponent)
{
    *exponent = x == 0 || std::ilogb(x) < -126 ? -126 : std::ilogb(x);
    return std::ldexp(x, -*exponent);
}

static inline float tf32_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Steps 2 to 4 for one element of d and four products, with any values. The four elements of a are consecutive. The
 * four elements of b are in a column, TF32_COLUMNS elements apart. */
__attribute__((no_sanitize_thread)) static inline float tf32_add_one(const uint32_t *a, const uint32_t *b, float d)
{
    double terms[TF32_AT_ONCE + 1], plain = d, sum = 0;
    int exponents[TF32_AT_ONCE + 1], most;
    terms[TF32_AT_ONCE] = tf32_significand(d, &exponents[TF32_AT_ONCE]);
    most = exponents[TF32_AT_ONCE];
    for (int l = 0; l < TF32_AT_ONCE; l++) {
        double x = tf32_float(a[l]), y = tf32_float(b[l * TF32_COLUMNS]);
        int of_y;
        plain += x * y;
        if (!std::isfinite(x) || !std::isfinite(y))
            continue;
        terms[l] = tf32_significand(x, &exponents[l]);
        terms[l] *= tf32_significand(y, &of_y);
        exponents[l] += of_y;
        most = exponents[l] > most ? exponents[l] : most;
    }
    if (!std::isfinite(plain))
        return (float)plain;
    for (int l = 0; l <= TF32_AT_ONCE; l++)
        sum += std::trunc(std::ldexp(terms[l], TF32_FRACTION + exponents[l] - most));
    sum = std::ldexp(sum, most - TF32_FRACTION);
    float rounded = (float)sum;
    return std::fabs((double)rounded) > std::fabs(sum) && std::isfinite(rounded) ? std::nextafterf(rounded, 0)
                                                                                 : rounded;
}

struct tf32_product {
    uint32_t a[TF32_ROWS][TF32_DEPTH], b[TF32_DEPTH][TF32_COLUMNS];
    float d[TF32_ROWS][TF32_COLUMNS];
};

static TF32_INLINE void tf32_multiply_inline(struct tf32_product *p)
{
    struct tf32_row b[TF32_DEPTH], a, d;
    tf32_integers others = {};
    for (int l = 0; l < TF32_DEPTH; l++) {
        for (int i = 0; i < TF32_COLUMNS; i++)
            p->b[l][i] &= 0xffffe000;
        tf32_read(p->b[l], &b[l]);
        others |= b[l].others;
    }
    for (int row = 0; row < TF32_ROWS; row++) {
        for (int l = 0; l < TF32_DEPTH; l++)
            p->a[row][l] &= 0xffffe000;
        tf32_read(p->a[row], &a);
        for (int first = 0; first < TF32_DEPTH; first += TF32_AT_ONCE) {
            tf32_read(p->d[row], &d);
            if (!tf32_any(others | a.others | d.others)) {
                tf32_add(a, first, b + first, d, p->d[row]);
                continue;
            }
            for (int i = 0; i < TF32_COLUMNS; i++)
                p->d[row][i] = tf32_add_one(&p->a[row][first], &p->b[first][i], p->d[row][i]);
        }
    }
}

__attribute__((no_sanitize_thread, no_sanitize_address, no_sanitize_undefined)) static inline void
tf32_multiply_anywhere(struct tf32_product *p)
{
    tf32_multiply_inline(p);
}

#ifdef __x86_64__
__attribute__((target("avx2"), no_sanitize_thread, no_sanitize_address, no_sanitize_undefined)) static inline void
tf32_multiply_avx2(struct tf32_product *p)
{
    tf32_multiply_inline(p);
}

__attribute__((no_sanitize_thread)) static inline void tf32_multiply(struct tf32_product *p)
{
    __builtin_cpu_supports("avx2") ? tf32_multiply_avx2(p) : tf32_multiply_anywhere(p);
}
#else
__attribute__((no_sanitize_thread)) static inline void tf32_multiply(struct tf32_product *p)
{
    tf32_multiply_anywhere(p);
}
#endif
} // namespace shim

#endif
