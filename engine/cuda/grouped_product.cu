#include "engine/cuda/cublas_library.h"
#include "engine/cuda/grouped_product.h"

#include <limits.h>
#include <stdlib.h>

/* Rows of matrices begin at multiples of this number. Otherwise cuBLAS may read beyond a matrix. */
#define ALIGNED_BYTES 16

struct cuda_grouped {
    struct cublas_library library;
    cublasHandle_t handle; /* NULL until cuBLAS is started, and if cuBLAS has no grouped products */
    bool tried;            /* whether the engine has tried to start cuBLAS */
};

struct cuda_grouped *cuda_grouped_open()
{
    return (struct cuda_grouped *)calloc(1, sizeof(struct cuda_grouped));
}

void cuda_grouped_close(struct cuda_grouped *grouped)
{
    if (grouped && grouped->handle)
        grouped->library.destroy(grouped->handle);
    free(grouped);
}

static void start(struct cuda_grouped *grouped)
{
    if (grouped->tried)
        return;
    grouped->tried = true;
    if (!cublas_library_load(&grouped->library) || grouped->library.create(&grouped->handle) != CUBLAS_STATUS_SUCCESS)
        grouped->handle = NULL;
    cudaGetLastError(); /* clears the error, because a device without memory for cuBLAS has not failed */
}

static int64_t most_stride(const struct cuda_product *p)
{
    return most(most(p->a_stride, p->b_stride), p->out_stride);
}

bool cuda_grouped_possible(struct cuda_grouped *grouped, struct cuda_run *run, const struct cuda_product *p,
                           int64_t most_depth)
{
    int64_t bytes = run->dtype == DTYPE_BF16 || run->dtype == DTYPE_F16 ? 2 : 4;
    int64_t strides = p->a_stride | p->b_stride | p->out_stride;
    if (strides * bytes % ALIGNED_BYTES != 0 ||
        most(most(p->rows, p->columns), most(most_depth, most_stride(p))) > INT_MAX)
        return false;
    if (run->tuning_milliseconds > 0)
        /* The caller does not hold run->submitting, because starting takes long. Batches use the handle only later. */
        start(grouped);
    return grouped->handle != NULL;
}

#define ARRAYS 10 /* number of arrays that cuBLAS reads, with 4 bytes for each group */

/* Reserves the next array in `room`, and fills it with the value. */
template <typename Value> static Value *repeat(void **room, int count, Value value)
{
    static_assert(sizeof(Value) == 4, "ARRAYS counts arrays of 4-byte elements");
    Value *values = (Value *)*room;
    for (int i = 0; i < count; i++)
        values[i] = value;
    *room = values + count;
    return values;
}

/* cuBLAS expects matrices in column-major order. So it computes outᵀ = Bᵀ Aᵀ, and B comes first. */
bool cuda_grouped_multiply(struct cuda_grouped *grouped, struct cuda_run *run, const struct grouped_product *product)
{
    const struct cuda_product *p = &product->common;
    const cudaDataType_t type = cublas_type_of(run->dtype);
    const int count = product->n_groups;
    void *arrays = malloc((size_t)count * ARRAYS * sizeof(int)), *room = arrays;
    if (!arrays || !has_not_failed(run)) {
        free(arrays);
        return false;
    }
    cublasStatus_t status = grouped->library.set_stream(grouped->handle, run->stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = grouped->library.multiply_grouped(
            grouped->handle, repeat(&room, count, p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N),
            repeat(&room, count, p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N), repeat(&room, count, (int)p->columns),
            repeat(&room, count, (int)p->rows), product->depths, repeat(&room, count, 1.0f), product->b, type,
            repeat(&room, count, (int)p->b_stride), product->a, type, repeat(&room, count, (int)p->a_stride),
            repeat(&room, count, 0.0f), product->out, type, repeat(&room, count, (int)p->out_stride), count,
            repeat(&room, count, product->group_size), cublas_compute_of(run->dtype));
    free(arrays);
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_ALLOC_FAILED && !cublas_refuses(status))
        run->product_failed = true;
    return status == CUBLAS_STATUS_SUCCESS;
}
