/* vector_activate: the activations and other functions of one number. vector.h states their rounding errors. */
#ifndef ENGINE_CPU_VECTOR_ACTIVATE_H
#define ENGINE_CPU_VECTOR_ACTIVATE_H

#include "engine/cpu/vector_type.h"

#include <float.h>

/* For each element: `yes` if all bits of its mask are set, and `no` if none is set. */
INLINE vector choose(integers mask, vector yes, vector no)
{
    return (vector)(((integers)yes & mask) | ((integers)no & ~mask));
}

INLINE vector absolute_of(vector x)
{
    return (vector)((bits)x & 0x7fffffff);
}

/* x with the sign of `sign`, for x >= 0. */
INLINE vector with_sign(vector x, vector sign)
{
    return (vector)((bits)x | ((bits)sign & 0x80000000));
}

/* Applies a function of the C library to each element. */
#define EACH_PLACE(function, x)         \
    ({                                  \
        vector of = (x);                \
        for (int p = 0; p < WIDTH; p++) \
            of[p] = function(of[p]);    \
        of;                             \
    })

/* ---- erf and GELU ---- */

/* erf(x) = x P(x²) / Q(x²), where P and Q are a minimax fit of degree 5 each on |x| <= 3.925. For larger |x|, erf
 * rounds to ±1 in float. The relative error is below 4e-7. */
INLINE vector error_function(vector x)
{
    vector u = x * x;
    vector p = all(2.046033387159696e-06f);
    p = p * u + 0.0002848425356205553f;
    p = p * u + 0.003772508818656206f;
    p = p * u + 0.052769165486097336f;
    p = p * u + 0.19059281051158905f;
    p = p * u + 1.1283791065216064f;
    vector q = all(3.804778680205345e-05f);
    q = q * u + 0.0011638477444648743f;
    q = q * u + 0.01498311385512352f;
    q = q * u + 0.11418232321739197f;
    q = q * u + 0.5022411942481995f;
    q = q * u + 1.0f;
    /* Exactly -1 for large negative x, so that x Φ(x) is 0. */
    vector near = where_less(x, all(-3.925f), all(-1), x * p / q);
    return where_less(all(3.925f), x, all(1), near);
}

#ifdef __AVX512BF16__

/* Φ(x) = 1/2 + x P(x²), where P is a minimax fit of degree 6 on |x| <= 4. For |x| > 4, |x P(16)| is more than 1/2, and
 * Φ is clamped to 0 or 1. The error of Φ is at most 1.1e-4. Below x = -3, Φ itself is not much larger than this error,
 * and GELU is close to 0. The rounding error of x changes GELU more than the error of Φ does. The reason is that x is a
 * sum of products of bf16 numbers, which have 8 significant bits. */
INLINE vector gelu_of(vector x)
{
    vector u = smaller(x * x, all(16));
    vector p = all(2.8160215492789574e-08f);
    p = p * u + -1.8918528894573683e-06f;
    p = p * u + 5.418974978965707e-05f;
    p = p * u + -0.0008789754938334227f;
    p = p * u + 0.009112929925322533f;
    p = p * u + -0.06538832187652588f;
    p = p * u + 0.3985269069671631f;
    return x * (0.5f + smaller(larger(x * p, all(-0.5f)), all(0.5f)));
}

#else

INLINE vector gelu_of(vector x)
{
    return 0.5f * x * (1.0f + error_function(x * 0.70710678118654752f));
}

#endif

/* A NaN stays a NaN. */
INLINE vector relu_of(vector x)
{
    return where_less(x, all(0), all(0), x);
}

/* ---- Exponentials and logarithms ---- */

/* e^x - 1. Near 0, it is x q(x) with the polynomial q of exp_quotient. Elsewhere the subtraction loses one bit at
 * most. */
INLINE vector expm1_of(vector x)
{
    vector far = exp_of(x) - 1.0f;
    return where_less(absolute_of(x), all(0.3466f), x * exp_quotient(x), far);
}

/* Uses exp(-|x|), which never overflows. */
INLINE vector sigmoid_of(vector x)
{
    vector e = exp_bounded(-absolute_of(x)), positive = 1.0f / (1.0f + e);
    return where_less(x, all(0), e * positive, positive);
}

/* Near 0, tanh is computed by the polynomial of tanhf in the Cephes library. */
INLINE vector tanh_of(vector x)
{
    vector size = absolute_of(x), u = x * x;
    vector p = all(-5.70498872745e-3f);
    p = p * u + 2.06390887954e-2f;
    p = p * u + -5.37397155531e-2f;
    p = p * u + 1.33314422036e-1f;
    p = p * u + -3.33332819422e-1f;
    vector far = 1.0f - 2.0f / (exp_of(2.0f * size) + 1.0f);
    return where_less(size, all(0.625f), p * u * x + x, with_sign(far, x));
}

/* log((1 + s) / (1 - s)) = 2 s + 2/3 s³ + …, for |s| <= 1/3 */
INLINE vector log_of_ratio(vector s)
{
    vector u = s * s;
    vector p = all(2.0f / 17);
    p = p * u + 2.0f / 15;
    p = p * u + 2.0f / 13;
    p = p * u + 2.0f / 11;
    p = p * u + 2.0f / 9;
    p = p * u + 2.0f / 7;
    p = p * u + 2.0f / 5;
    p = p * u + 2.0f / 3;
    return p * u * s + 2.0f * s;
}

/* log(x) = n ln 2 + log(m), where x = 2^n m with m in [sqrt(1/2), sqrt(2)). n ln 2 is added in two parts, as in
 * exp_bounded. */
INLINE vector log_of(vector x)
{
    integers subnormal = x < all(FLT_MIN);
    vector scaled = choose(subnormal, x * 8388608.0f, x);
    integers power = ((integers)scaled - 0x3f3504f3) >> 23;
    vector m = (vector)((integers)scaled - (power << 23)),
           n = __builtin_convertvector(power - (subnormal & 23), vector);
    vector y = log_of_ratio((m - 1.0f) / (m + 1.0f)) - n * 2.12194440e-4f + n * 0.693359375f;
    y = choose(x == all(INFINITY), x, y);
    y = choose(x == all(0), all(-INFINITY), y);
    y = choose(x < all(0), all(NAN), y);
    return choose(x == x, y, x);
}

/* log(1 + x) */
INLINE vector log1p_of(vector x)
{
    vector near = log_of_ratio(x / (2.0f + x));
    return where_less(absolute_of(x), all(0.4f), near, log_of(1.0f + x));
}

/* log(1 + e^x) */
INLINE vector softplus_of(vector x)
{
    return larger(all(0), x) + log1p_of(exp_bounded(-absolute_of(x)));
}

/* ---- Activations ---- */

/* Computes x sigmoid(2 u) instead of x (1 + tanh(u)) / 2, which would cancel where tanh(u) is near -1. */
INLINE vector gelu_tanh_of(vector x)
{
    return x * sigmoid_of(1.59576912160573071f * (x + 0.044715f * x * x * x));
}

/* x tanh(log(1 + e)), where the hyperbolic tangent is a quotient of polynomials in e = e^x. From x = 20 on, this
 * quotient is 1 in float, so x is limited to 20 in e. */
INLINE vector mish_of(vector x)
{
    vector e = exp_bounded(smaller(all(20), x)), w = e * (e + 2.0f);
    return x * (w / (w + 2.0f));
}

INLINE vector elu_of(vector x, float a)
{
    return where_less(all(0), x, x, a * expm1_of(x));
}

INLINE vector clamp_of(vector x, float a, float b)
{
    x = where_less(x, all(a), all(a), x);
    return where_less(all(b), x, all(b), x);
}

INLINE vector sign_of(vector x)
{
    return where_less(x, all(0), all(-1), where_less(all(0), x, all(1), all(0)));
}

/* For each element: 1 if all bits of its mask are set, and 0 if none is set. */
INLINE vector one_where(integers mask)
{
    return choose(mask, all(1), all(0));
}

/* Not inlined, because the switch is long. The loops for the usual activations stay short. */
static __attribute__((noinline)) vector function_of(struct plan_activation f, vector x)
{
    switch (f.kind) {
    case ACTIVATION_NONE:
    case ACTIVATION_COUNT:
        break;
    case ACTIVATION_GELU:
        return gelu_of(x);
    case ACTIVATION_RELU:
        return relu_of(x);
    case ACTIVATION_GELU_TANH:
        return gelu_tanh_of(x);
    case ACTIVATION_SILU:
        return x * sigmoid_of(x);
    case ACTIVATION_SIGMOID:
        return sigmoid_of(x);
    case ACTIVATION_TANH:
        return tanh_of(x);
    case ACTIVATION_LEAKY_RELU:
        return where_less(all(0), x, x, f.a * x);
    case ACTIVATION_ELU:
        return elu_of(x, f.a);
    case ACTIVATION_SELU:
        return 1.0507009873554805f * elu_of(x, 1.6732632423543772f);
    case ACTIVATION_SOFTPLUS:
        return where_less(all(f.b), x * f.a, x, softplus_of(x * f.a) / f.a);
    case ACTIVATION_CLAMP:
        return clamp_of(x, f.a, f.b);
    case ACTIVATION_HARD_SWISH:
        return x * clamp_of(x + 3.0f, 0, 6) / 6.0f;
    case ACTIVATION_HARD_SIGMOID:
        return clamp_of(x + 3.0f, 0, 6) / 6.0f;
    case ACTIVATION_MISH:
        return mish_of(x);
    case ACTIVATION_LOG_SIGMOID:
        return -softplus_of(-x);
    case ACTIVATION_AFFINE:
        return f.a * x + f.b;
    case ACTIVATION_ABSOLUTE:
        return absolute_of(x);
    case ACTIVATION_SQUARE_ROOT:
        return EACH_PLACE(sqrtf, x);
    case ACTIVATION_INVERSE_ROOT:
        return 1.0f / EACH_PLACE(sqrtf, x);
    case ACTIVATION_SQUARE:
        return x * x;
    case ACTIVATION_RECIPROCAL:
        return 1.0f / x;
    case ACTIVATION_EXP:
        return exp_of(x);
    case ACTIVATION_EXPM1:
        return expm1_of(x);
    case ACTIVATION_LOG:
        return log_of(x);
    case ACTIVATION_LOG1P:
        return log1p_of(x);
    case ACTIVATION_SIN:
        return EACH_PLACE(sinf, x);
    case ACTIVATION_COS:
        return EACH_PLACE(cosf, x);
    case ACTIVATION_ERF:
        return error_function(x);
    case ACTIVATION_FLOOR:
        return EACH_PLACE(floorf, x);
    case ACTIVATION_CEIL:
        return EACH_PLACE(ceilf, x);
    case ACTIVATION_ROUND:
        return EACH_PLACE(rintf, x);
    case ACTIVATION_TRUNCATE:
        return EACH_PLACE(truncf, x);
    case ACTIVATION_SIGN:
        return sign_of(x);
    case ACTIVATION_NOT:
        return one_where(x == all(0));
    case ACTIVATION_IS_NAN:
        return one_where(x != x);
    }
    return x;
}

INLINE vector activation_of(struct plan_activation activation, vector x)
{
    if (activation.kind == ACTIVATION_GELU)
        return gelu_of(x);
    if (activation.kind == ACTIVATION_RELU)
        return relu_of(x);
    return activation.kind == ACTIVATION_NONE ? x : function_of(activation, x);
}

#endif
