/* cublas_library: the types of cuBLAS for a dtype, and the functions of libcublas that compute products of several
 * sizes in one launch. The engine is linked with cuBLASLt, which lacks these functions. cuBLAS has them from version
 * 12.5 on, so they are looked up at run time. */
#ifndef ENGINE_CUDA_CUBLAS_LIBRARY_H
#define ENGINE_CUDA_CUBLAS_LIBRARY_H

extern "C" {
#include "config/config.h"
}

#include <cublasLt.h> /* also declares the types of cuBLAS */

static inline cudaDataType_t cublas_type_of(enum dtype dtype)
{
    return dtype == DTYPE_BF16 ? CUDA_R_16BF : dtype == DTYPE_F16 ? CUDA_R_16F : CUDA_R_32F;
}

static inline cublasComputeType_t cublas_compute_of(enum dtype dtype)
{
    return dtype == DTYPE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/* Whether the status means that cuBLAS does not support the product, or an algorithm for it. Any other status is a
 * failure of the device or of cuBLAS. */
static inline bool cublas_refuses(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH;
}

struct cublas_library {
    cublasStatus_t (*create)(cublasHandle_t *handle);
    cublasStatus_t (*destroy)(cublasHandle_t handle);
    cublasStatus_t (*set_stream)(cublasHandle_t handle, cudaStream_t stream);
    /* cublasGemmGroupedBatchedEx. A group is products of the same size. A, B and C are arrays in device memory, with
     * one pointer for each product. All other arrays are in host memory, with one element for each group. cuBLAS reads
     * these before the function returns. */
    cublasStatus_t (*multiply_grouped)(cublasHandle_t handle, const cublasOperation_t transpose_a[],
                                       const cublasOperation_t transpose_b[], const int m[], const int n[],
                                       const int k[], const void *alpha, const void *const a[], cudaDataType_t a_type,
                                       const int lda[], const void *const b[], cudaDataType_t b_type, const int ldb[],
                                       const void *beta, void *const c[], cudaDataType_t c_type, const int ldc[],
                                       int groups, const int group_size[], cublasComputeType_t compute);
};

/* Loads libcublas of the CUDA version that the engine was compiled with. The library stays loaded. Returns false if the
 * machine has no libcublas, or one older than 12.5. */
bool cublas_library_load(struct cublas_library *library);

#endif
