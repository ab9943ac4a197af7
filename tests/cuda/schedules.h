/* schedules: orders in which the shim lets threads go on; see shim/cuda_runtime.h. 0 is lockstep, 1 at random, 2 one
 * thread as far as it goes. Results are compared in every build, and each build has another order. The thread sanitizer
 * has the last: it looks at what barriers order, not at when things happen. The plain build has the last, too, of a
 * program that defines NO_THREAD_SANITIZER. Programs of tf32 and f16 have the first two: their kernels are those of
 * float32 and bf16 over another type. SHIM_SEED names another order. */
#ifndef TESTS_CUDA_SCHEDULES_H
#define TESTS_CUDA_SCHEDULES_H

#include <stdio.h>
#include <stdlib.h>

static int run_schedules(int (*tests)(void))
{
#if defined(__SANITIZE_THREAD__)
    static const char *const seeds[] = {"2"};
#elif defined(__SANITIZE_ADDRESS__)
    static const char *const seeds[] = {"1"};
#elif defined(NO_THREAD_SANITIZER)
    static const char *const seeds[] = {"0", "2"};
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
