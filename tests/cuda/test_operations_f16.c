/* test_operations_cuda.c in f16. */
#define DTYPE DTYPE_F16
#define TOLERANCE 5e-2 /* the operation retrieve may choose other keys */
#include "tests/cuda/test_operations_cuda.c"
