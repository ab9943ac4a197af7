/* test_cases.c with random modules: tests/modules/random_modules.py drew and recorded them. */
#define CASES "tests/modules/random.tar.gz"
#define FEWEST_CASES 320
#define BATCH_TOKENS 16384 /* of the value with the most rows */
#include "tests/reference/test_cases.c"
