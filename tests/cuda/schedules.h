/* schedules: orders in which the shim lets threads go on; see shim/cuda_runtime.h. Lockstep, at random, and one thread
 * as far as it goes; under a sanitizer, where each costs several times as much, and where the file that includes this
 * defines ONE_SCHEDULE, one of them. SHIM_SEED names another. */
#ifndef TESTS_CUDA_SCHEDULES_H
#define TESTS_CUDA_SCHEDULES_H

#include <stdio.h>
#include <stdlib.h>

static int run_schedules(int (*tests)(void))
{
#if defined(__SANITIZE_ADDRESS__) || defined(ONE_SCHEDULE)
    static const char *const seeds[] = {"1"};
#elif defined(__SANITIZE_THREAD__)
    static const char *const seeds[] = {"2"};
#else
    static const char *const seeds[] = {"0", "1", "2"};
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
