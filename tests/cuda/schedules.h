/* schedules: orders in which the shim lets threads go on; see shim/cuda_runtime.h. 0 is lockstep, 1 at random, 2 one
 * thread as far as it goes. Each order runs in one build at least, and results are compared in all: the plain build has
 * the first, that with the address sanitizer the others, that with the thread sanitizer the last, for it costs ten
 * times as much there and matters least. The file that includes this may define ONE_WITH_ADDRESSES: 1 alone with the
 * address sanitizer. SHIM_SEED names another order. */
#ifndef TESTS_CUDA_SCHEDULES_H
#define TESTS_CUDA_SCHEDULES_H

#include <stdio.h>
#include <stdlib.h>

static int run_schedules(int (*tests)(void))
{
#if defined(__SANITIZE_THREAD__)
    static const char *const seeds[] = {"2"};
#elif defined(__SANITIZE_ADDRESS__) && defined(ONE_WITH_ADDRESSES)
    static const char *const seeds[] = {"1"};
#elif defined(__SANITIZE_ADDRESS__)
    static const char *const seeds[] = {"1", "2"};
#else
    static const char *const seeds[] = {"0"};
#endif
    if (getenv("SHIM_SEED"))
        return tests();
    int failed = 0;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        printf("# SHIM_SEED=%s\n", seeds[i]);
        setenv("SHIM_SEED", seeds[i], 1);
        failed += tests();
    }
    return failed;
}

#endif
