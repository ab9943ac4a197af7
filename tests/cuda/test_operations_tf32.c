/* test_operations_cuda.c in tf32. ONLY_PRODUCTS leaves out tests that launch the same kernels as in f32. */
#define ONLY_PRODUCTS
#define DTYPE DTYPE_TF32
#define TOLERANCE 1e-2
#include "tests/cuda/test_operations_cuda.c"
