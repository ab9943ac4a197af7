/* test_parts_cuda.c in bf16. */
#define DTYPE DTYPE_BF16
#define TOLERANCE 2e-2
#include "tests/cuda/test_parts_cuda.c"
