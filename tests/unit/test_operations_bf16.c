/* Products of numbers with 8 bits. */
#define DTYPE DTYPE_BF16
#include "tests/unit/test_operations.c"
