/* test_operations_cuda.c without tensor cores. ONLY_PRODUCTS leaves out tests that launch the same kernels as with
 * tensor cores. */
#define ONLY_PRODUCTS
#define CUDA_F32 CUDA_F32_PLAIN
#include "tests/cuda/test_operations_cuda.c"
