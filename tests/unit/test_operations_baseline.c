#define KERNELS SET_BASELINE
#include "tests/unit/test_operations.c"
