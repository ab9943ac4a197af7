#include "engine/cuda/activate.h"
#include "engine/cuda/plain_product.h"

/* Number of rows and columns of `out` that a block computes. Also the number of elements of the depth that it
 * multiplies at a time. A thread computes one element of `out`. */
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

/* Applies bias and GELU to a sum. The sum contains the element of `add` already. */
template <typename T>
static __device__ __forceinline__ float finished(const struct cuda_product &p, int64_t column, float sum)
{
    if (p.bias)
        sum += to_float(((const T *)p.bias)[column]);
    return p.gelu ? gelu_tanh_of(sum) : sum;
}

/* A block computes a tile of `out`. The elements of `out` have the type To. Grid: x is the tile, y is the number of the
 * product. */
template <typename T, typename To>
static __global__ void __launch_bounds__(THREADS) multiply_tile(struct cuda_product p)
{
    struct product_tiles *tiles = (struct product_tiles *)dynamic_shared_memory;
    int64_t across = (p.columns + TILE - 1) / TILE;
    p.a = (const T *)p.a + blockIdx.y * p.a_distance;
    p.b = (const T *)p.b + blockIdx.y * p.b_distance;
    p.out = (To *)p.out + blockIdx.y * p.out_distance;
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
        __syncthreads(); /* the next tiles will overwrite these tiles */
    }
    if (row >= p.rows || column >= p.columns)
        return;
    int64_t place = row * p.out_stride + column;
    if (p.add)
        sum += to_float(((const To *)p.add)[place]);
    ((To *)p.out)[place] = of_float<To>(finished<To>(p, column, sum));
}

/* Adds the bias and computes GELU, in place. A warp computes a row. A thread computes N elements at a time. */
template <typename To, int N> static __global__ void finish_product(int64_t rows, struct cuda_product p)
{
    int64_t row = warp_of_grid();
    To *out = (To *)p.out + row * p.out_stride;
    for (int64_t c = warp_thread() * N; row < rows && c < p.columns; c += WARP * N) {
        float values[N], bias[N] = {};
        load(values, out + c);
        if (p.bias)
            load(bias, (const To *)p.bias + c);
        for (int i = 0; i < N; i++)
            values[i] = p.gelu ? gelu_tanh_of(values[i] + bias[i]) : values[i] + bias[i];
        store(out + c, values);
    }
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
    unsigned count = product->count > 1 ? (unsigned)product->count : 1;
    with_types(run, product, [&](auto element, auto out) {
        launch_shared(run, multiply_tile<decltype(element), decltype(out)>, blocks, count, THREADS,
                      sizeof(struct product_tiles), *product);
    });
}

/* Whether rows of `out` and the bias consist of whole packs. */
static bool is_packed(const struct cuda_product *product, int pack)
{
    return (product->columns | product->out_stride) % pack == 0 &&
           ((uintptr_t)product->out | (uintptr_t)product->bias) % 16 == 0;
}

void plain_product_finish(struct cuda_run *run, const struct cuda_product *product)
{
    with_types(run, product, [&](auto, auto out) {
        typedef decltype(out) To;
        if (is_packed(product, PACK<To>))
            launch_rows(run, finish_product<To, PACK<To>>, product->rows, *product);
        else
            launch_rows(run, finish_product<To, 1>, product->rows, *product);
    });
}
