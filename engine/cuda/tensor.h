/* tensor: one function for each instruction of tensor cores, and for copies into shared memory. All threads of a warp
 * must call a function together, except for the copies.
 *
 * A fragment is the part of a matrix that one thread holds. The places of its elements are those of the PTX ISA,
 * "Matrix fragments for mma.m16n8k16" and "ldmatrix". With g = warp_thread() / 4 and t = warp_thread() % 4:
 *
 *     A (16, 16) of 16 bits: a[0] = (g, 2t), a[1] = (g + 8, 2t), a[2] = (g, 2t + 8), a[3] = (g + 8, 2t + 8), each with
 *                            the next column in its upper half
 *     B (16, 8) of 16 bits:  b[0] = (2t, g), b[1] = (2t + 8, g), each with the next row in its upper half
 *     D (16, 8):             d[0] = (g, 2t), d[1] = (g, 2t + 1), d[2] = (g + 8, 2t), d[3] = (g + 8, 2t + 1)
 *     A (16, 8) of TF32:     a[0] = (g, t), a[1] = (g + 8, t), a[2] = (g, t + 4), a[3] = (g + 8, t + 4)
 *     B (8, 8) of TF32:      b[0] = (t, g), b[1] = (t + 4, g)
 *
 * The functions consist of PTX instructions, which CPUs lack. The shim (tests/cuda/shim) therefore contains the same
 * functions for the CPU, in a header beside its cuda_runtime.h. */
#ifndef ENGINE_CUDA_TENSOR_H
#define ENGINE_CUDA_TENSOR_H

#include "engine/cuda/element.h"
#include "engine/cuda/gpu.h"

#ifdef __CUDACC__

/* Two elements in a register, the first in its lower half. Each is rounded like of_float. */
template <typename T> static __device__ __forceinline__ uint32_t pair_of(float lower, float upper);

template <> __device__ __forceinline__ uint32_t pair_of<bf16>(float lower, float upper)
{
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(upper), "f"(lower));
    return bits;
}

template <> __device__ __forceinline__ uint32_t pair_of<f16>(float lower, float upper)
{
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(upper), "f"(lower));
    return bits;
}

/* d += A B. A (16, 16) and B (16, 8) have elements of 16 bits, d (16, 8) is float. */
template <typename T>
static __device__ __forceinline__ void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

template <>
__device__ __forceinline__ void multiply_add<bf16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <>
__device__ __forceinline__ void multiply_add<f16>(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* d += A B. A (16, 8) and B (8, 8) have elements of TF32, which are floats with 10 bits of fraction. Tensor cores
 * ignore the lower 13 bits. d (16, 8) is float. Tensor cores round its sums towards zero. */
static __device__ __forceinline__ void multiply_add_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0,
                                                         uint32_t b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Loads four matrices (8, 8) of 16 bits, or (8, 4) of 32 bits, from shared memory. Thread i passes the address of row
 * i % 8 of matrix i / 8. */
static __device__ __forceinline__ void load_matrices(uint32_t (&fragment)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* Like load_matrices, with each matrix transposed. */
static __device__ __forceinline__ void load_matrices_transposed(uint32_t (&fragment)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

/* Starts a copy of 16 bytes to shared memory. If `there` is false, it writes zeros and does not read `from`. */
static __device__ __forceinline__ void copy_async(void *to, const void *from, bool there)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

/* Forms a group of the copies that the thread has started since the last group. */
static __device__ __forceinline__ void copies_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until all groups of the thread have arrived, except for the newest PENDING groups. Other threads see the data
 * after a barrier.
 */
template <int PENDING> static __device__ __forceinline__ void copies_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

/* 2^x, fast, with a few bits less than exp2f. Subnormal results are 0. */
static __device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#else
#include <tensor_model.h> /* of the shim */
#endif

/* Unused elements after each row in shared memory. They put the rows of a fragment into different memory banks. */
#define PAD 8

/* Copies `count` rows of WIDE elements to shared memory. x has `there` rows of `columns` elements. Further rows and
 * columns become zeros. If `packed`, the rows of x begin and end at multiples of 16 bytes, and the function only starts
 * the copies. `thread` is the number of the calling thread among `threads` threads. */
template <typename T, int WIDE>
static __device__ void copy_rows(T (*to)[WIDE + PAD], const T *x, int64_t stride, int64_t there, int64_t columns,
                                 bool packed, int count, int thread, int threads)
{
    constexpr int packs = WIDE / PACK<T>;
    for (int i = thread; i < count * packs; i += threads) {
        int row = i / packs, c = i % packs * PACK<T>;
        const T *from = x + row * stride + c;
        bool inside = row < there && c < columns;
        if (packed) {
            copy_async(&to[row][c], inside ? from : x, inside);
            continue;
        }
        for (int j = 0; j < PACK<T>; j++)
            to[row][c + j] = row < there && c + j < columns ? from[j] : of_float<T>(0.0f);
    }
}

#endif
