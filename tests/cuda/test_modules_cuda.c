/* test_cases_cuda.c with the modules that export_module() wrote (tests/modules). */
#define CASES "tests/modules/reference"
#define MIN_CASES 16
#define BATCH_TOKENS 16384 /* number of rows of the value with the most rows in all cases */
#include "tests/cuda/test_cases_cuda.c"
