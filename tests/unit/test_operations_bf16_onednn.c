/* oneDNN computes products with weights, as on processors with AMX. */
#define DTYPE DTYPE_BF16
#define PRODUCTS LIBRARY_ONEDNN
#include "tests/unit/test_operations.c"
