/* norm: the layer norm of one row, computed by a warp. The caller passes functions that compute the row's values and
 * that receive the results. A pack is 16 bytes of elements (element.h). */
#ifndef ENGINE_CUDA_NORM_H
#define ENGINE_CUDA_NORM_H

#include "engine/cuda/element.h"
#include "engine/cuda/gpu.h"

#define KEPT 4 /* packs that a thread keeps in registers */

struct norm {
    const float *gain, *bias; /* (columns) */
    float epsilon;
};

/* Calls work(values, column) for each pack of the row that the thread handles. The first KEPT packs are in `kept`.
 * make() computes the others. */
template <int N, typename Make, typename Work>
static __device__ __forceinline__ void each_pack(int64_t columns, float (&kept)[KEPT][N], Make make, Work work)
{
#pragma unroll
    for (int p = 0; p < KEPT; p++)
        if ((p * WARP + warp_thread()) * N < columns)
            work(kept[p], (p * WARP + warp_thread()) * N);
    for (int64_t c = (KEPT * WARP + warp_thread()) * N; c < columns; c += WARP * N) {
        float values[N];
        make(values, c);
        work(values, c);
    }
}

/* Three passes over the row: sum, variance, result. make(values, column) computes a pack of the row. It is called again
 * in each pass, unless the pack is kept in registers. give(values, column) receives the normalised pack, after make has
 * computed each pack once. The row before normalisation is written to `row`, unless `row` is NULL. The variance needs a
 * pass of its own, because a difference of sums of squares would lose digits. */
template <int N, typename T, typename Make, typename Give>
static __device__ __forceinline__ void normalise(int64_t columns, struct norm norm, Make make, T *row, Give give)
{
    float kept[KEPT][N], sum = 0, squares = 0;
#pragma unroll
    for (int p = 0; p < KEPT; p++)
        if ((p * WARP + warp_thread()) * N < columns)
            make(kept[p], (p * WARP + warp_thread()) * N);
    each_pack(columns, kept, make, [&](const float(&values)[N], int64_t c) {
        for (int i = 0; i < N; i++)
            sum += values[i];
        if (row)
            store(row + c, values);
    });
    float mean = warp_sum(sum) / (float)columns;
    each_pack(columns, kept, make, [&](const float(&values)[N], int64_t) {
        for (int i = 0; i < N; i++)
            squares += (values[i] - mean) * (values[i] - mean);
    });
    float factor = 1.0f / sqrtf(warp_sum(squares) / (float)columns + norm.epsilon);
    each_pack(columns, kept, make, [&](float(&values)[N], int64_t c) {
        float gains[N], biases[N];
        load(gains, norm.gain + c);
        load(biases, norm.bias + c);
        for (int i = 0; i < N; i++)
            values[i] = (values[i] - mean) * factor * gains[i] + biases[i];
        give(values, c);
    });
}

#endif
