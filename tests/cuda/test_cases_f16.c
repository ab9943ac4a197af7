/* test_cases_cuda.c in f16. */
#define DTYPE DTYPE_F16
#define TOLERANCE 3e-3
#include "tests/cuda/test_cases_cuda.c"
