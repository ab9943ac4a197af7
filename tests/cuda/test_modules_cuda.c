/* test_cases_cuda.c with the modules that export_module() wrote (tests/modules). */
#define CASES "tests/modules/reference"
#define MIN_CASES 16
#define BATCH_TOKENS 16384 /* maximum number of rows of a value, over all cases */
#include "tests/cuda/test_cases_cuda.c"
