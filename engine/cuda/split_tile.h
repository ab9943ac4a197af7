/* split_tile: a tile of the product A B of float matrices, computed by one block on tensor cores (split.h). A is (rows,
 * depth), B is (depth, columns). Each operand consists of lines: the rows of A, the columns of B. In memory, either the
 * elements of one line are neighbours (ALONG), or the elements with the same index in all lines.
 *
 * A block multiplies `split_depth` elements of each line at a time, which are called a stage. Meanwhile it copies later
 * stages. Each element of the tile is summed up in the same order with every size of tiles. */
#ifndef ENGINE_CUDA_SPLIT_TILE_H
#define ENGINE_CUDA_SPLIT_TILE_H

#include "engine/cuda/split.h"
#include "engine/plan/arithmetic.h"

#define SPLIT_STAGES 4
#define SPLIT_WARPS 8 /* 2 along the rows, 4 along the columns */

/* Elements of a line in a stage. A block needs up to 80 KiB of shared memory with tiles of 128 lines, and 72 KiB with
 * tiles of 64 lines. */
template <int LINES> constexpr int split_depth = LINES < 128 ? 32 : 16;

/* Number of blocks that a multiprocessor runs at a time. A thread with large tiles needs 210 to 250 registers. */
template <int LINES> constexpr int split_resident = LINES < 128 ? 2 : 1;

/* Whether `large` tiles of 128 lines take less time than `small` tiles of 64 lines for the same work. A large tile has
 * four times the work of a small tile. A multiplication in a small tile takes about 1.4 times as long, by a count of
 * instructions (tests/gpu/predict.py): 1.15 times with compute capability 8.0, and 1.6 times with 9.0. Tiles are
 * counted in rounds over all multiprocessors, because the last round may leave some of them idle. */
static inline bool split_large_are_faster(int64_t large, int64_t small, int64_t processors)
{
    return parts_of(large, processors) * 4 * 10 <= parts_of(small, processors) * 14;
}

/* The lines of an operand that a block multiplies, in global memory. Element l of line i is from[i * stride + l] with
 * ALONG, else from[l * stride + i]. */
struct split_operand {
    const float *from;
    int64_t stride, lines; /* further lines are zeros */
    bool packed;           /* rows of memory begin and end at multiples of 16 bytes */
};

/* A stage of an operand. The unused floats after each row put the parts of a fragment into different memory banks. */
template <int LINES, bool ALONG> struct split_lines {
    float of[LINES][split_depth<LINES> + 4];
};
template <int LINES> struct split_lines<LINES, false> {
    float of[split_depth<LINES>][LINES + 8];
};

template <int LINES, bool A_ALONG, bool B_ALONG> struct split_stage {
    struct split_lines<LINES, A_ALONG> a;
    struct split_lines<LINES, B_ALONG> b;
};

/* A warp's part of the tile: (LINES / 2, LINES / 4), as fragments of (16, 8). */
template <int LINES> struct split_sums {
    float large[LINES / 32][LINES / 32][4], small[LINES / 32][LINES / 32][4];
};

/* Starts the copies of a stage. It begins with element `first` of the `depth` elements of each line. */
template <int LINES>
static __device__ __forceinline__ void split_copy(struct split_lines<LINES, true> *to, const struct split_operand &x,
                                                  int64_t first, int64_t depth)
{
    split_copy_rows<LINES, split_depth<LINES>, SPLIT_WARPS * WARP>(to->of, x.from + first, x.stride, x.lines,
                                                                   depth - first, x.packed);
}

template <int LINES>
static __device__ __forceinline__ void split_copy(struct split_lines<LINES, false> *to, const struct split_operand &x,
                                                  int64_t first, int64_t depth)
{
    split_copy_rows<split_depth<LINES>, LINES, SPLIT_WARPS * WARP>(to->of, x.from + first * x.stride, x.stride,
                                                                   depth - first, x.lines, x.packed);
}

/* Loads and splits the fragment of A with lines [line, line + 16) and depths [d, d + 8). */
template <int LINES>
static __device__ __forceinline__ void split_load_a(struct split<4> *a, const struct split_lines<LINES, true> *x,
                                                    int line, int d)
{
    split_load(a, &x->of[line + warp_thread() % 16][d + warp_thread() / 16 * 4]);
}

template <int LINES>
static __device__ __forceinline__ void split_load_a(struct split<4> *a, const struct split_lines<LINES, false> *x,
                                                    int line, int d)
{
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = __float_as_uint(x->of[d + warp_thread() % 4 + i / 2 * 4][line + warp_thread() / 4 + i % 2 * 8]);
    split_of(a, bits);
}

/* Loads and splits two fragments of B, with lines [line, line + 8) and [line + 8, line + 16), and depths [d, d + 8). */
template <int LINES>
static __device__ __forceinline__ void split_load_b(struct split<4> *b, const struct split_lines<LINES, true> *x,
                                                    int line, int d)
{
    split_load(b, &x->of[line + warp_thread() / 16 * 8 + warp_thread() % 8][d + warp_thread() / 8 % 2 * 4]);
}

template <int LINES>
static __device__ __forceinline__ void split_load_b(struct split<4> *b, const struct split_lines<LINES, false> *x,
                                                    int line, int d)
{
    uint32_t bits[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        bits[i] = __float_as_uint(x->of[d + warp_thread() % 4 + i % 2 * 4][line + warp_thread() / 4 + i / 2 * 8]);
    split_of(b, bits);
}

/* The place of the thread's warp in the tile. */
template <int LINES> static __device__ __forceinline__ int split_row()
{
    return (int)threadIdx.x / WARP / 4 * (LINES / 2);
}

template <int LINES> static __device__ __forceinline__ int split_column()
{
    return (int)threadIdx.x / WARP % 4 * (LINES / 4);
}

template <int LINES, bool A_ALONG, bool B_ALONG>
static __device__ __forceinline__ void split_multiply_stage(const struct split_stage<LINES, A_ALONG, B_ALONG> *stage,
                                                            struct split_sums<LINES> *sums)
{
#pragma unroll 1 /* loading later fragments meanwhile would need more registers than there are */
    for (int d = 0; d < split_depth<LINES>; d += SPLIT_DEPTH) {
        struct split<4> a[LINES / 32], b;
#pragma unroll
        for (int i = 0; i < LINES / 32; i++)
            split_load_a(&a[i], &stage->a, split_row<LINES>() + i * 16, d);
#pragma unroll
        for (int n = 0; n < LINES / 32; n++) {
            if (n % 2 == 0)
                split_load_b(&b, &stage->b, split_column<LINES>() + n * 8, d);
#pragma unroll
            for (int i = 0; i < LINES / 32; i++)
                split_multiply_add(sums->large[i][n], sums->small[i][n], a[i], b, n % 2);
        }
    }
}

/* Computes the tile from `depth` elements of each line. All threads of the block must call it. */
template <int LINES, bool A_ALONG, bool B_ALONG>
static __device__ __forceinline__ void split_multiply(const struct split_operand &a, const struct split_operand &b,
                                                      int64_t depth, struct split_sums<LINES> *sums)
{
    typedef struct split_stage<LINES, A_ALONG, B_ALONG> stage;
    stage *stages = (stage *)dynamic_shared_memory;
    int64_t steps = (depth + split_depth<LINES> - 1) / split_depth<LINES>;
    for (int64_t ahead = 1 - SPLIT_STAGES; ahead < steps; ahead++) {
        int64_t next = ahead + SPLIT_STAGES - 1;
        if (ahead >= 0) {
            copies_wait<SPLIT_STAGES - 2>();
            __syncthreads(); /* all threads see this stage, and have read the previous one */
        }
        if (next < steps) {
            split_copy(&stages[next % SPLIT_STAGES].a, a, next * split_depth<LINES>, depth);
            split_copy(&stages[next % SPLIT_STAGES].b, b, next * split_depth<LINES>, depth);
        }
        copies_commit();
        if (ahead >= 0)
            split_multiply_stage(&stages[ahead % SPLIT_STAGES], sums);
    }
    copies_wait<0>();
}

/* Calls put(row, column, x, y) for all neighbours x = (row, column), y = (row, column + 1) of the thread's part of the
 * tile. */
template <int LINES, typename Put>
static __device__ __forceinline__ void split_give(const struct split_sums<LINES> &sums, Put put)
{
#pragma unroll
    for (int i = 0; i < LINES / 32; i++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
            for (int n = 0; n < LINES / 32; n++)
                put(split_row<LINES>() + i * 16 + half * 8 + warp_thread() / 4,
                    split_column<LINES>() + n * 8 + warp_thread() % 4 * 2,
                    split_sum(sums.large[i][n][half * 2], sums.small[i][n][half * 2]),
                    split_sum(sums.large[i][n][half * 2 + 1], sums.small[i][n][half * 2 + 1]));
}

#endif
