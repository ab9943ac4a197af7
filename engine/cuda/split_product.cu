#include "engine/cuda/split_product.h"
#include "engine/cuda/split_tile.h"

#define LARGE 128 /* number of lines of a large tile. A small tile consists of SMALL lines */
#define SMALL 64

bool split_product_fits(const struct cuda_run *run, const struct cuda_product *product)
{
    return run->split && product->transpose_b && !product->gelu;
}

static __device__ __forceinline__ void put_pair(const struct cuda_product &p, int64_t row, int64_t column, bool paired,
                                                float x, float y)
{
    const float *bias = (const float *)p.bias;
    int64_t place = row * p.out_stride + column;
    bool second = column + 1 < p.columns;
    float *out = (float *)p.out + place;
    const float *add = p.add ? (const float *)p.add + place : NULL;
    if (bias) {
        x += bias[column];
        y += second ? bias[column + 1] : 0;
    }
    if (add) {
        x += add[0];
        y += second ? add[1] : 0;
    }
    if (paired) {
        *(float2 *)out = make_float2(x, y);
        return;
    }
    out[0] = x;
    if (second)
        out[1] = y;
}

/* A block computes a tile of `out`. Neighbouring blocks compute tiles of the same rows, so they read A from the
 * cache. */
template <int LINES, bool A_ALONG>
static __global__ void __launch_bounds__(SPLIT_WARPS *WARP, split_resident<LINES>)
    multiply_split(struct cuda_product p, bool a_packed, bool b_packed, bool paired)
{
    int64_t across = (p.columns + LINES - 1) / LINES;
    int64_t row = blockIdx.x / across * LINES, column = blockIdx.x % across * LINES;
    struct split_operand a = {(const float *)p.a + row * (A_ALONG ? p.a_stride : 1), p.a_stride, p.rows - row,
                              a_packed};
    struct split_operand b = {(const float *)p.b + column * p.b_stride, p.b_stride, p.columns - column, b_packed};
    struct split_sums<LINES> sums = {
    };
    split_multiply<LINES, A_ALONG, true>(a, b, p.depth, &sums);
    split_give(sums, [&](int r, int c, float x, float y) {
        if (row + r < p.rows && column + c < p.columns)
            put_pair(p, row + r, column + c, paired, x, y);
    });
}

static bool is_packed(const void *matrix, int64_t stride, int64_t columns)
{
    return (uintptr_t)matrix % 16 == 0 && (stride | columns) % PACK<float> == 0;
}

template <int LINES, bool A_ALONG> static void launch_tiles(struct cuda_run *run, const struct cuda_product *p)
{
    int64_t blocks = parts_of(p->rows, LINES) * parts_of(p->columns, LINES);
    bool a_packed = is_packed(p->a, p->a_stride, A_ALONG ? p->depth : p->rows);
    bool b_packed = is_packed(p->b, p->b_stride, p->depth);
    bool paired = (uintptr_t)p->out % sizeof(float2) == 0 && (p->out_stride | p->columns) % 2 == 0;
    launch_shared(run, multiply_split<LINES, A_ALONG>, blocks, 1, SPLIT_WARPS * WARP,
                  SPLIT_STAGES * sizeof(struct split_stage<LINES, A_ALONG, true>), *p, a_packed, b_packed, paired);
}

/* Chooses the faster tiles that fit into shared memory. With both sizes of tiles, the result has the same bits. */
template <bool A_ALONG> static void choose_tiles(struct cuda_run *run, const struct cuda_product *p)
{
    int64_t large = parts_of(p->rows, LARGE) * parts_of(p->columns, LARGE);
    int64_t small = parts_of(p->rows, SMALL) * parts_of(p->columns, SMALL);
    size_t bytes = SPLIT_STAGES * sizeof(struct split_stage<LARGE, A_ALONG, true>);
    if (bytes <= run->shared_bytes && split_large_are_faster(large, small, run->processors))
        launch_tiles<LARGE, A_ALONG>(run, p);
    else
        launch_tiles<SMALL, A_ALONG>(run, p);
}

bool split_product(struct cuda_run *run, const struct cuda_product *product)
{
    struct cuda_run now = *run;
    now.choosing = false;
    if (product->transpose_a)
        choose_tiles<false>(&now, product);
    else
        choose_tiles<true>(&now, product);
    note(run, now.status);
    return run->status == cudaSuccess;
}
