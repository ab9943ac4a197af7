/* test_cases_cuda.c in tf32. The shim truncates operands to tf32, which is the worst rounding that a GPU may use.
 * Errors are at most 3.3e-3 (errors.sh). A GPU also adds in another order. */
#define DTYPE DTYPE_TF32
#define TOLERANCE 6e-3
#include "tests/cuda/test_cases_cuda.c"
