/* test_cases_cuda.c in bf16. */
#define DTYPE DTYPE_BF16
#define NO_THREAD_SANITIZER
#define TOLERANCE 2e-2
#include "tests/cuda/test_cases_cuda.c"
