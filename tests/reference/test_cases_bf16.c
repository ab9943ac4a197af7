/* test_cases.c with products in bf16, whose numbers have 8 significant bits. Each number has a relative error of up to
 * 2^-8. After several layers, errors are larger. */
#define DTYPE DTYPE_BF16
#define TOLERANCE 1.2e-2
#include "tests/reference/test_cases.c"
