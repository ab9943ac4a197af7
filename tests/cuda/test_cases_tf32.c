/* The same in tf32. The shim cuts operands to tf32, the worst that a chip may do: 2.6e-3 at most there (rounded to
 * nearest 9.4e-4), and a chip adds in another order. */
#define DTYPE DTYPE_TF32
#define TOLERANCE 6e-3
#include "tests/cuda/test_cases_cuda.c"
