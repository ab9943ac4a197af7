/* Products of numbers with 8 bits: scores of 10 are off by 0.04, and so are the weights that their exponentials are. */
#define DTYPE "bf16"
#define TOLERANCE 5e-2
#include "tests/unit/test_operations.c"
