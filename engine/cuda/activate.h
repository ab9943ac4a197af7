/* activate: the activation functions of plan.h, on the device. They compute in float. The CPU's are in
 * engine/cpu/vector_activate.h. */
#ifndef ENGINE_CUDA_ACTIVATE_H
#define ENGINE_CUDA_ACTIVATE_H

#include <cuda_runtime.h>
#include <math.h>

extern "C" {
#include "engine/plan/plan.h"
}

/* x Φ(x). Φ is computed by erfc, which stays accurate where Φ is small. */
static __device__ __forceinline__ float gelu_of(float x)
{
    return 0.5f * x * erfcf(x * -0.70710678118654752f);
}

static __device__ __forceinline__ float sigmoid_of(float x)
{
    float e = expf(-fabsf(x)), positive = 1 / (1 + e);
    return x < 0 ? e * positive : positive;
}

/* log(1 + e^x) */
static __device__ __forceinline__ float softplus_of(float x)
{
    return (x < 0 ? 0 : x) + log1pf(expf(-fabsf(x)));
}

/* Computes x sigmoid(2 u) instead of x (1 + tanh(u)) / 2, which would cancel where tanh(u) is near -1. */
static __device__ __forceinline__ float gelu_tanh_of(float x)
{
    return x * sigmoid_of(1.59576912160573071f * (x + 0.044715f * x * x * x));
}

/* x tanh(log(1 + e)), where tanh is a quotient of polynomials in e = e^x. From x = 20 on, this quotient is 1 in float,
 * so e is limited to e^20 */
static __device__ __forceinline__ float mish_of(float x)
{
    float e = expf(x > 20 ? 20 : x), w = e * (e + 2);
    return x * (w / (w + 2));
}

static __device__ __forceinline__ float elu_of(float x, float a)
{
    return x > 0 ? x : a * expm1f(x);
}

/* A NaN stays a NaN. */
static __device__ __forceinline__ float clamp_of(float x, float a, float b)
{
    x = x < a ? a : x;
    return x > b ? b : x;
}

static __device__ __forceinline__ float activation_of(struct plan_activation f, float x)
{
    switch (f.kind) {
    case ACTIVATION_GELU:
        return gelu_of(x);
    case ACTIVATION_RELU:
        return x < 0 ? 0 : x; /* a NaN stays a NaN */
    case ACTIVATION_GELU_TANH:
        return gelu_tanh_of(x);
    case ACTIVATION_SILU:
        return x * sigmoid_of(x);
    case ACTIVATION_SIGMOID:
        return sigmoid_of(x);
    case ACTIVATION_TANH:
        return tanhf(x);
    case ACTIVATION_LEAKY_RELU:
        return x > 0 ? x : f.a * x;
    case ACTIVATION_ELU:
        return elu_of(x, f.a);
    case ACTIVATION_SELU:
        return 1.0507009873554805f * elu_of(x, 1.6732632423543772f);
    case ACTIVATION_SOFTPLUS:
        return x * f.a > f.b ? x : softplus_of(x * f.a) / f.a;
    case ACTIVATION_CLAMP:
        return clamp_of(x, f.a, f.b);
    case ACTIVATION_HARD_SWISH:
        return x * clamp_of(x + 3, 0, 6) / 6;
    case ACTIVATION_HARD_SIGMOID:
        return clamp_of(x + 3, 0, 6) / 6;
    case ACTIVATION_MISH:
        return mish_of(x);
    case ACTIVATION_LOG_SIGMOID:
        return -softplus_of(-x);
    case ACTIVATION_AFFINE:
        return f.a * x + f.b;
    case ACTIVATION_ABSOLUTE:
        return fabsf(x);
    case ACTIVATION_SQUARE_ROOT:
        return sqrtf(x);
    case ACTIVATION_INVERSE_ROOT:
        return 1 / sqrtf(x);
    case ACTIVATION_SQUARE:
        return x * x;
    case ACTIVATION_RECIPROCAL:
        return 1 / x;
    case ACTIVATION_EXP:
        return expf(x);
    case ACTIVATION_EXPM1:
        return expm1f(x);
    case ACTIVATION_LOG:
        return logf(x);
    case ACTIVATION_LOG1P:
        return log1pf(x);
    case ACTIVATION_SIN:
        return sinf(x);
    case ACTIVATION_COS:
        return cosf(x);
    case ACTIVATION_ERF:
        return erff(x);
    case ACTIVATION_FLOOR:
        return floorf(x);
    case ACTIVATION_CEIL:
        return ceilf(x);
    case ACTIVATION_ROUND:
        return rintf(x);
    case ACTIVATION_TRUNCATE:
        return truncf(x);
    case ACTIVATION_SIGN:
        return (float)((x > 0) - (x < 0));
    case ACTIVATION_NOT:
        return x == 0;
    case ACTIVATION_IS_NAN:
        return x != x;
    case ACTIVATION_NONE:
    case ACTIVATION_COUNT:
        break;
    }
    return x;
}

#endif
