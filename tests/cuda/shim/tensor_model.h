/* tensor_model: the functions of engine/cuda/tensor.h for the CPU. The lane of a warp that calls an instruction last
 * computes the instruction for all lanes. tensor.h describes which elements of a matrix each lane's fragment contains.
 *
 * Each lane itself accesses shared memory. This lets the thread sanitizer attribute the accesses to the lane. */
#ifndef TESTS_CUDA_SHIM_TENSOR_MODEL_H
#define TESTS_CUDA_SHIM_TENSOR_MODEL_H

#include "tf32_model.h"

#include <cuda_runtime.h>

namespace shim
{
/* Marks functions that one lane runs for all lanes, while the other lanes wait. In these functions, the sizes of arrays
 * are fixed by their types, and no index depends on data. Therefore the address sanitizer would find nothing in
 * them. */
#define FOR_ALL_LANES __attribute__((no_sanitize_thread, no_sanitize_address, no_sanitize_undefined))

struct product_lane {
    const uint32_t *a, *b;
    float *d;
};

template <typename T> float half_of(uint32_t pair, int upper)
{
    T element;
    element.bits = (uint16_t)(upper ? pair >> 16 : pair);
    return to_float(element);
}

/* A row of B, or of A B. The compiler computes its elements with vector instructions. */
typedef float row_of_eight __attribute__((vector_size(8 * sizeof(float))));

/* Adds A B to D for whole matrices. Each lane holds four elements of D. */
FOR_ALL_LANES static inline void add_product(void *const *lanes, const float (&a)[16][16], const float (&b)[16][8])
{
    for (int row = 0; row < 16; row++) {
        row_of_eight sum = {}, of_b;
        for (int l = 0; l < 16; l++) {
            memcpy(&of_b, b[l], sizeof of_b);
            sum += a[row][l] * of_b;
        }
        for (int column = 0; column < 8; column++)
            ((const product_lane *)lanes[row % 8 * 4 + column / 2])->d[row / 8 * 2 + column % 2] += sum[column];
    }
}

template <typename T> FOR_ALL_LANES void multiply_halves(void *const *lanes)
{
    float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; lane++)
        for (int upper = 0; upper < 2; upper++) {
            const product_lane *of_lane = (const product_lane *)lanes[lane];
            int group = lane / 4, next = lane % 4 * 2 + upper;
            for (int i = 0; i < 4; i++)
                a[group + i % 2 * 8][next + i / 2 * 8] = half_of<T>(of_lane->a[i], upper);
            for (int i = 0; i < 2; i++)
                b[next + i * 8][group] = half_of<T>(of_lane->b[i], upper);
        }
    add_product(lanes, a, b);
}

/* D += A B in TF32. */
FOR_ALL_LANES static inline void multiply_tf32(void *const *lanes)
{
    tf32_product product;
    for (int lane = 0; lane < 32; lane++) {
        const product_lane *of_lane = (const product_lane *)lanes[lane];
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 4; i++) {
            product.a[g + i % 2 * 8][t + i / 2 * 4] = of_lane->a[i];
            product.d[g + i / 2 * 8][t * 2 + i % 2] = of_lane->d[i];
        }
        for (int i = 0; i < 2; i++)
            product.b[t + i * 4][g] = of_lane->b[i];
    }
    tf32_multiply(&product);
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++)
            ((const product_lane *)lanes[lane])->d[i] = product.d[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
}

struct alignas(16) matrix_lane {
    uint32_t row[4], *fragment;
};

/* Distributes four matrices. Lanes 8m to 8m + 7 hold the rows of matrix m. Lane l receives the elements at row l / 4,
 * columns 2 (l % 4) and 2 (l % 4) + 1. */
FOR_ALL_LANES static inline void hand_out(void *const *lanes)
{
    for (int lane = 0; lane < 32; lane++)
        for (int m = 0; m < 4; m++)
            ((matrix_lane *)lanes[lane])->fragment[m] = ((const matrix_lane *)lanes[m * 8 + lane / 4])->row[lane % 4];
}

/* Distributes the transposes. Lane l receives the elements at column l / 4, rows 2 (l % 4) and 2 (l % 4) + 1. */
FOR_ALL_LANES static inline void hand_out_transposed(void *const *lanes)
{
    for (int lane = 0; lane < 32; lane++)
        for (int m = 0; m < 4; m++) {
            uint32_t pair = 0;
            for (int upper = 0; upper < 2; upper++) {
                const matrix_lane *of_row = (const matrix_lane *)lanes[m * 8 + lane % 4 * 2 + upper];
                pair |= (of_row->row[lane / 8] >> lane / 4 % 2 * 16 & 0xffff) << upper * 16;
            }
            ((matrix_lane *)lanes[lane])->fragment[m] = pair;
        }
}

static inline void load_matrices(uint32_t (&fragment)[4], const void *row, void (*handing)(void *const *), int line)
{
    matrix_lane lane;
    if ((uintptr_t)row % 16 != 0)
        die("a row for ldmatrix is not aligned to 16 bytes");
    *(uint4 *)lane.row = *(const uint4 *)row;
    lane.fragment = fragment;
    warp(handing, &lane, line);
}
} // namespace shim

template <typename T> uint32_t pair_of(float lower, float upper)
{
    T elements[2] = {of_float<T>(lower), of_float<T>(upper)};
    uint32_t bits;
    memcpy(&bits, elements, sizeof bits);
    return bits;
}

template <typename T> void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    const uint32_t b[2] = {b0, b1};
    shim::product_lane lane = {a, b, d};
    shim::warp(shim::multiply_halves<T>, &lane, __LINE__);
}

static inline void multiply_add_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    const uint32_t b[2] = {b0, b1};
    shim::product_lane lane = {a, b, d};
    shim::warp(shim::multiply_tf32, &lane, __LINE__);
}

static inline float power_of_two(float x)
{
    float y = std::exp2(x);
    return y < 0x1p-126f ? 0 : y; /* NaN stays NaN */
}

static inline void load_matrices(uint32_t (&fragment)[4], const void *row)
{
    shim::load_matrices(fragment, row, shim::hand_out, __LINE__);
}

static inline void load_matrices_transposed(uint32_t (&fragment)[4], const void *row)
{
    shim::load_matrices(fragment, row, shim::hand_out_transposed, __LINE__);
}

/* Reads the first word of the source at once, which lets the sanitizers check the access. Overwrites the destination at
 * once, so that a missing wait gives a wrong result. */
static inline void copy_async(void *to, const void *from, bool there)
{
    if (((uintptr_t)to | (uintptr_t)from) % 16 != 0)
        shim::die("an asynchronous copy is not aligned to 16 bytes");
    if (there) {
        volatile uint32_t seen = *(const uint32_t *)from;
        (void)seen;
    }
    *(uint4 *)to = {~0u, ~0u, ~0u, ~0u};
    shim::copy_later(to, from, !there);
}

static inline void copies_commit()
{
    shim::copies_commit();
}

template <int PENDING> void copies_wait()
{
    shim::copies_wait(PENDING);
}

#endif
