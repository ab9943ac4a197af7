#define KERNELS SET_AVX2
#include "tests/unit/test_operations.c"
