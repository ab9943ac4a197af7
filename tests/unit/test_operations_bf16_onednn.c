/* Products with weights are oneDNN's, as where the processor has AMX. */
#define DTYPE "bf16"
#define PRODUCTS "onednn"
#define TOLERANCE 5e-2
#include "tests/unit/test_operations.c"
