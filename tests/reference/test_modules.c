/* test_cases.c with the modules that export_module() wrote (tests/modules). */
#define CASES "tests/modules/reference"
#define FEWEST_CASES 16
#define BATCH_TOKENS 16384 /* rows of the value with the most rows */
#include "tests/reference/test_cases.c"
