#include "engine/cuda/plain_product.h"
#include "engine/cuda/rows.h"

/* Rows and columns of `out` for each block, and depth at a time. A thread computes one element of `out`. */
#define TILE 16
#define THREADS (TILE * TILE)

struct product_tiles {
    float a[TILE][TILE + 1], b[TILE][TILE + 1]; /* the additional column puts rows into different memory banks */
};

template <typename T>
static __device__ __forceinline__ float element_of(const void *matrix, int64_t stride, bool transposed, int64_t row,
                                                   int64_t column)
{
    return to_float(((const T *)matrix)[transposed ? column * stride + row : row * stride + column]);
}

/* Applies bias and GELU. The kernel then adds `add`. */
template <typename T>
static __device__ __forceinline__ float finished(const struct cuda_product &p, int64_t column, float sum)
{
    if (p.bias)
        sum += to_float(((const T *)p.bias)[column]);
    return p.gelu ? gelu_of(sum) : sum;
}

/* A block computes a tile of `out`, whose elements have the type To. */
template <typename T, typename To>
static __global__ void __launch_bounds__(THREADS) multiply_tile(struct cuda_product p)
{
    struct product_tiles *tiles = (struct product_tiles *)dynamic_shared_memory;
    int64_t across = (p.columns + TILE - 1) / TILE;
    int64_t first_row = blockIdx.x / across * TILE, first_column = blockIdx.x % across * TILE;
    int y = (int)threadIdx.x / TILE, x = (int)threadIdx.x % TILE;
    int64_t row = first_row + y, column = first_column + x;
    float sum = 0;
    for (int64_t l = 0; l < p.depth; l += TILE) {
        bool in_a = row < p.rows && l + x < p.depth, in_b = l + y < p.depth && column < p.columns;
        tiles->a[y][x] = in_a ? element_of<T>(p.a, p.a_stride, p.transpose_a, row, l + x) : 0;
        tiles->b[y][x] = in_b ? element_of<T>(p.b, p.b_stride, p.transpose_b, l + y, column) : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += tiles->a[y][i] * tiles->b[i][x];
        __syncthreads(); /* the next tiles will overwrite these */
    }
    if (row >= p.rows || column >= p.columns)
        return;
    int64_t place = row * p.out_stride + column;
    if (p.add)
        sum += to_float(((const To *)p.add)[place]);
    ((To *)p.out)[place] = of_float<To>(finished<To>(p, column, sum));
}

template <typename To> static __global__ void finish_product(struct cuda_product p)
{
    int64_t element = thread_of_grid(), row = element / p.columns, column = element % p.columns;
    if (row >= p.rows)
        return;
    To *out = (To *)p.out + row * p.out_stride + column;
    *out = of_float<To>(finished<To>(p, column, to_float(*out)));
}

/* Calls call(a, b), where a is an element of the run's type, and b an element of the type of `out`. */
template <typename Call>
static void with_types(const struct cuda_run *run, const struct cuda_product *product, Call call)
{
    if (run->dtype == DTYPE_BF16 && product->float_out)
        call(bf16(), float());
    else if (run->dtype == DTYPE_BF16)
        call(bf16(), bf16());
    else if (run->dtype == DTYPE_F16 && product->float_out)
        call(f16(), float());
    else if (run->dtype == DTYPE_F16)
        call(f16(), f16());
    else
        call(float(), float());
}

void plain_product(struct cuda_run *run, const struct cuda_product *product)
{
    int64_t blocks = parts_of(product->rows, TILE) * parts_of(product->columns, TILE);
    with_types(run, product, [&](auto element, auto out) {
        launch_shared(run, multiply_tile<decltype(element), decltype(out)>, blocks, 1, THREADS,
                      sizeof(struct product_tiles), *product);
    });
}

void plain_product_finish(struct cuda_run *run, const struct cuda_product *product)
{
    int64_t blocks = parts_of(product->rows * product->columns, THREADS);
    with_types(run, product,
               [&](auto, auto out) { launch(run, finish_product<decltype(out)>, blocks, 1, THREADS, *product); });
}
