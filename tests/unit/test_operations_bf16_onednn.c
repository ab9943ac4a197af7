/* test_operations.c in bf16. oneDNN computes the products with weights, as on processors with AMX. */
#define DTYPE DTYPE_BF16
#define PRODUCTS LIBRARY_ONEDNN
#include "tests/unit/test_operations.c"
