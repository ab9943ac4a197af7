/* test_operations_cuda in f16. */
#define DTYPE DTYPE_F16
#define TOLERANCE 5e-2 /* retrieve may choose other keys */
#include "tests/cuda/test_operations_cuda.c"
