/* norm: the layer norm of one row, by a warp. The caller says how values are made and where they go. */
#ifndef ENGINE_CUDA_NORM_H
#define ENGINE_CUDA_NORM_H

#include "engine/cuda/element.h"
#include "engine/cuda/gpu.h"

#define KEPT 4 /* packs that a thread keeps in registers */

struct norm {
    const float *gain, *bias; /* (columns) */
    float epsilon;
};

/* Calls work(values, column) for the thread's packs of a row. The first KEPT are in `kept`; make() makes the others. */
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

/* Three passes over the row: sum, variance, result. make(values, column) makes a pack of the row. It is called for each
 * pass again, unless the pack is kept. give(values, column) gets the normalised pack, after all packs were made once.
 * The row itself is written to `row`, unless that is NULL. The variance has a pass of its own: a difference of sums of
 * squares would lose digits. */
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
