/* schedules: runs tests in several orders of threads in the shim (see SHIM_SEED in shim/cuda_runtime.h). 0 is lockstep,
 * 1 is random, 2 runs one thread as far as possible. Each build runs other orders. The thread sanitizer runs order 2,
 * because it detects races in any order. A program that defines NO_THREAD_SANITIZER also runs order 2 in the plain
 * build. Programs in f16 and tf32 run only in the plain build. Kernels of f16 are those of bf16 with another type, and
 * kernels of tf32 are those of float32 without tensor cores. If SHIM_SEED is set, only its order runs. */
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
