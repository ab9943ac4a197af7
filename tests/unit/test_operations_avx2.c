#define KERNELS "avx2"
#include "tests/unit/test_operations.c"
