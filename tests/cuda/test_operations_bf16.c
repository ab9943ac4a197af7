/* test_operations_cuda in bf16. */
#define DTYPE DTYPE_BF16
#define TOLERANCE 1e-1 /* weights and inputs are rounded, too, and retrieve may choose other keys */
#include "tests/cuda/test_operations_cuda.c"
