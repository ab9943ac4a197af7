/* test_operations.c with products in bf16, whose numbers have 8 significant bits. */
#define DTYPE DTYPE_BF16
#include "tests/unit/test_operations.c"
