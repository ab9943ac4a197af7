/* schedules: orders in which the shim lets threads go on; see shim/cuda_runtime.h. Lockstep, at random, and one thread
 * as far as it goes. With the address sanitizer, where each costs some three times as much, the latter two; with the
 * thread sanitizer, where it costs ten times as much and order matters least, the last. The file that includes this may
 * define ONE_SCHEDULE or ONE_WITH_SANITIZERS. SHIM_SEED names another. */
#ifndef TESTS_CUDA_SCHEDULES_H
#define TESTS_CUDA_SCHEDULES_H

#include <stdio.h>
#include <stdlib.h>

static int run_schedules(int (*tests)(void))
{
#if defined(__SANITIZE_THREAD__)
    static const char *const seeds[] = {"2"};
#elif defined(ONE_SCHEDULE) || (defined(__SANITIZE_ADDRESS__) && defined(ONE_WITH_SANITIZERS))
    static const char *const seeds[] = {"1"};
#elif defined(__SANITIZE_ADDRESS__)
    static const char *const seeds[] = {"1", "2"};
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
