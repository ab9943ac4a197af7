/* Products with weights are oneDNN's, as where the processor has AMX. */
#define DTYPE "bf16"
#define PRODUCTS "onednn"
#include "tests/unit/test_operations.c"
