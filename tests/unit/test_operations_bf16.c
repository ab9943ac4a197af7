/* Products of numbers with 8 bits. */
#define DTYPE "bf16"
#include "tests/unit/test_operations.c"
