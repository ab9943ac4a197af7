/* test_operations_cuda.c in bf16. */
#define DTYPE DTYPE_BF16
#define TOLERANCE 1e-1 /* weights and inputs are also rounded, and the operation retrieve may choose other keys */
#include "tests/cuda/test_operations_cuda.c"
