/* test_cases.c with random modules, which tests/modules/random_modules.py made. */
#define CASES "tests/modules/random.tar.gz"
#define FEWEST_CASES 320
#define BATCH_TOKENS 16384 /* rows of the value with the most rows */
#include "tests/reference/test_cases.c"
