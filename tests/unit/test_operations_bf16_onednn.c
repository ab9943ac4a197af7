/* Products with weights are oneDNN's, as where the processor has AMX. */
#define DTYPE DTYPE_BF16
#define PRODUCTS LIBRARY_ONEDNN
#include "tests/unit/test_operations.c"
