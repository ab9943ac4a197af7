/* The same in tf32. The shim cuts operands to tf32, the worst that a chip may do: 3.2e-3 at most there, with any of six
 * SEEDs. */
#define DTYPE DTYPE_TF32
#define TOLERANCE 1e-2
#include "tests/cuda/test_operations_cuda.c"
