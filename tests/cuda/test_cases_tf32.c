/* test_cases_cuda in tf32. The shim truncates operands to tf32, which is the worst rounding that a GPU may do. Errors
 * are then at most 2.6e-3; with operands rounded to nearest, 9.4e-4. A GPU also adds in another order. */
#define DTYPE DTYPE_TF32
#define TOLERANCE 6e-3
#include "tests/cuda/test_cases_cuda.c"
