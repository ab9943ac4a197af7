#define KERNELS "baseline"
#include "tests/unit/test_operations.c"
