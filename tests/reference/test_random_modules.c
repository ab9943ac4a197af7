/* test_cases.c with the random modules that tests/modules/random_modules.py recorded. */
#define CASES "tests/modules/random.tar.gz"
#define MIN_CASES 320
#define BATCH_TOKENS 16384 /* at least the number of rows of the largest value of a module */
#include "tests/reference/test_cases.c"
