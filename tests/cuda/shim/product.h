/* product: a queued matrix product of cuBLASLt or cuBLAS, or several products of one size. Only the shim's own files
 * include this header. Matrices are in column-major order, as cuBLAS expects. */
#ifndef TESTS_CUDA_SHIM_PRODUCT_H
#define TESTS_CUDA_SHIM_PRODUCT_H

#include "tests/cuda/shim/runtime.h"

#include <cublasLt.h>

namespace shim
{
size_t bytes_of_element(cudaDataType_t type);

/* D = factor A B + c_factor C, followed by the epilogue. The structure contains copies of the caller's descriptors,
 * because the caller may free the descriptors before the product runs. */
struct product {
    cublasLtMatmulDescOpaque_t how;
    cublasLtMatrixLayoutOpaque_t al, bl, cl, dl;
    const void *a, *b, *c;
    void *d;
    float factor, c_factor;

    bool fits() const;        /* returns whether the sizes of the matrices fit each other */
    bool is_laid_out() const; /* returns whether neither columns nor results overlap */
    /* Returns whether the matrices of each product have the alignment that was requested for the algorithm. */
    bool is_aligned(const uint32_t alignment[4]) const;
    /* Returns whether all matrices are on the device. The matrices of two products may be in different allocations. */
    bool is_on_device() const;
    void trace() const; /* adds the product to the trace (kernels.h) */
    void run() const;

  private:
    static const void *of_product(const void *first, const cublasLtMatrixLayoutOpaque_t &layout, int32_t number);
    void run_one() const;
};

/* Returns the status for a call that fails with this error. */
cublasStatus_t status_of(cudaError_t error);
} // namespace shim

#endif
