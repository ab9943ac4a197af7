/* element: the type of stored activations and weights: float, bfloat16 or half precision. Kernels are templates over
 * it, and compute in float. */
#ifndef ENGINE_CUDA_ELEMENT_H
#define ENGINE_CUDA_ELEMENT_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <string.h>

typedef __nv_bfloat16 bf16;
typedef __half f16;

static __device__ __forceinline__ float to_float(float x)
{
    return x;
}

static __device__ __forceinline__ float to_float(bf16 x)
{
    return __bfloat162float(x);
}

static __device__ __forceinline__ float to_float(f16 x)
{
    return __half2float(x);
}

/* Rounds to the nearest, ties to even. */
template <typename T> static __device__ __forceinline__ T of_float(float x);

template <> __device__ __forceinline__ float of_float<float>(float x)
{
    return x;
}

template <> __device__ __forceinline__ bf16 of_float<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

template <> __device__ __forceinline__ f16 of_float<f16>(float x)
{
    return __float2half_rn(x);
}

/* Number of elements in a pack of 16 bytes: 4 or 8. */
template <typename T> constexpr int PACK = 16 / (int)sizeof(T);

/* Instantiates an operation for each type of elements. Use it once for each operation. Otherwise symbols are
 * undefined, and the shared object of the CUDA engine does not load. */
#define FOR_ELEMENTS(operation)                                                          \
    template void operation<float>(struct cuda_run * run, const struct plan_step *step); \
    template void operation<bf16>(struct cuda_run * run, const struct plan_step *step);  \
    template void operation<f16>(struct cuda_run * run, const struct plan_step *step);

/* Loads N elements as floats. N is 1 or a multiple of PACK<T>. If N is a multiple of PACK<T>, `from` must be aligned to
 * 16 bytes. */
template <int N, typename T> static __device__ __forceinline__ void load(float (&x)[N], const T *from)
{
    if constexpr (N % PACK<T> == 0)
        for (int first = 0; first < N; first += PACK<T>) {
            uint4 bits = *(const uint4 *)(from + first);
            T elements[PACK<T>];
            memcpy(elements, &bits, sizeof bits);
            for (int i = 0; i < PACK<T>; i++)
                x[first + i] = to_float(elements[i]);
        }
    else
        for (int i = 0; i < N; i++)
            x[i] = to_float(from[i]);
}

/* Copies N elements. */
template <int N, typename T> static __device__ __forceinline__ void copy(T *to, const T *from)
{
    if constexpr (N == PACK<T>)
        *(uint4 *)to = *(const uint4 *)from;
    else
        for (int i = 0; i < N; i++)
            to[i] = from[i];
}

template <int N, typename T> static __device__ __forceinline__ void store(T *to, const float (&x)[N])
{
    if constexpr (N % PACK<T> == 0)
        for (int first = 0; first < N; first += PACK<T>) {
            uint4 bits;
            T elements[PACK<T>];
            for (int i = 0; i < PACK<T>; i++)
                elements[i] = of_float<T>(x[first + i]);
            memcpy(&bits, elements, sizeof bits);
            *(uint4 *)(to + first) = bits;
        }
    else
        for (int i = 0; i < N; i++)
            to[i] = of_float<T>(x[i]);
}

#endif
