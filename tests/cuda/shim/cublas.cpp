/* Simulates the grouped matrix products of cuBLAS. */
#include "faults.h"
#include "kernels.h"
#include "product.h"
#include "streams.h"

#include <cstdlib>
#include <vector>

/* One group of products, with the arguments of cublasGemmGroupedBatchedEx that are in the host's memory. */
struct group {
    shim::product product; /* without the addresses of the matrices */
    int count;
};

static cudaStream_t stream_of_handle; /* all handles share this stream. Guarded by shim::mutex */

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    *handle = (cublasHandle_t)&stream_of_handle;
    return shim::fault(shim::call::start) ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t stream)
{
    shim::guard lock(shim::mutex);
    stream_of_handle = stream;
    return CUBLAS_STATUS_SUCCESS;
}

/* SHIM_GROUPED_MS is the simulated time of a call, in milliseconds. The default is 1. */
static float milliseconds_of_call()
{
    const char *given = getenv("SHIM_GROUPED_MS");
    return given ? strtof(given, nullptr) : 1;
}

static cublasLtMatrixLayoutOpaque_t layout_of(cudaDataType_t type, cublasOperation_t transpose, int rows, int columns,
                                              int stride)
{
    if (transpose == CUBLAS_OP_T)
        std::swap(rows, columns);
    return {type, (uint64_t)rows, (uint64_t)columns, stride, 1, 0};
}

/* Runs the products of all groups. a, b and c are arrays of pointers in device memory. */
static void run(const std::vector<group> &groups, const void *const *a, const void *const *b, void *const *c)
{
    const uint32_t alignment[] = {16, 16, 16, 16};
    size_t number = 0;
    for (const group &group : groups)
        for (int i = 0; i < group.count; i++, number++) {
            shim::product product = group.product;
            product.a = a[number];
            product.b = b[number];
            product.c = product.d = c[number];
            if (!product.is_on_device())
                shim::die("a matrix of a grouped product is not within an allocation");
            if (!product.is_aligned(alignment))
                shim::die("a matrix of a grouped product is not aligned to 16 bytes");
            product.run();
        }
}

static void trace(const std::vector<group> &groups)
{
    uint64_t depths = 0, products = 0;
    const shim::product &first = groups[0].product;
    for (const group &group : groups) {
        const cublasLtMatrixLayoutOpaque_t &a = group.product.al;
        depths += (uint64_t)group.count * (group.product.how.transpose_a == CUBLAS_OP_N ? a.columns : a.rows);
        products += (uint64_t)group.count;
    }
    shim::trace("grouped\t%lu %lu %lu %lu\t%zu\n", first.dl.rows, first.dl.columns, depths, products,
                shim::bytes_of_element(first.al.type));
}

cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t, const cublasOperation_t transpose_a[],
                                          const cublasOperation_t transpose_b[], const int m[], const int n[],
                                          const int k[], const void *alpha, const void *const a[],
                                          cudaDataType_t a_type, const int lda[], const void *const b[],
                                          cudaDataType_t b_type, const int ldb[], const void *beta, void *const c[],
                                          cudaDataType_t c_type, const int ldc[], int groups, const int group_size[],
                                          cublasComputeType_t compute)
{
    shim::guard lock(shim::mutex);
    std::vector<group> queued;
    size_t products = 0;
    if (shim::is_capturing())
        shim::die("grouped products are captured, although a graph cannot change their sizes");
    if (cudaError_t error = shim::fault(shim::call::grouped))
        return error == cudaErrorMemoryAllocation ? CUBLAS_STATUS_ALLOC_FAILED : shim::status_of(error);
    if (a_type != b_type || a_type != c_type || groups < 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < groups; i++) {
        group group = {};
        if (m[i] < 1 || n[i] < 1 || k[i] < 1 || group_size[i] < 1)
            return CUBLAS_STATUS_INVALID_VALUE;
        group.product.how = {compute, CUDA_R_32F, transpose_a[i], transpose_b[i], CUBLASLT_EPILOGUE_DEFAULT, nullptr};
        group.product.al = layout_of(a_type, transpose_a[i], m[i], k[i], lda[i]);
        group.product.bl = layout_of(b_type, transpose_b[i], k[i], n[i], ldb[i]);
        group.product.cl = group.product.dl = layout_of(c_type, CUBLAS_OP_N, m[i], n[i], ldc[i]);
        group.product.factor = ((const float *)alpha)[i];
        group.product.c_factor = ((const float *)beta)[i];
        if (!group.product.fits() || !group.product.is_laid_out())
            return CUBLAS_STATUS_INVALID_VALUE;
        group.count = group_size[i];
        products += (size_t)group.count;
        queued.push_back(group);
    }
    for (const void *pointers : {(const void *)a, (const void *)b, (const void *)c})
        if (!shim::is_device_memory(pointers, products * sizeof(void *)))
            shim::die("an array of matrices is not within an allocation");
    shim::count(GROUPED_PRODUCTS);
    shim::enqueue(stream_of_handle, [=] {
        if (shim::is_traced())
            trace(queued);
        else
            run(queued, a, b, c);
        shim::pass(milliseconds_of_call());
    });
    return CUBLAS_STATUS_SUCCESS;
}
