/* Products of numbers with 8 bits: an error of 2^-9 each, more after several layers. */
#define DTYPE DTYPE_BF16
#define TOLERANCE 1.2e-2
#include "tests/reference/test_cases.c"
