/* test_cases_cuda.c with the modules that export_module() wrote (tests/modules). */
#define CASES "tests/modules/reference"
#define MIN_CASES 16
#define BATCH_TOKENS 16384 /* the most rows that a value has in any case */
#include "tests/cuda/test_cases_cuda.c"
