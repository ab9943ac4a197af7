/* test_cases.c with the modules that export_module() wrote (tests/modules/reference). */
#define CASES "tests/modules/reference"
#define MIN_CASES 16
#define BATCH_TOKENS 16384 /* at least the number of rows of the largest value of a module */
#include "tests/reference/test_cases.c"
