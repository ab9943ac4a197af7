/* counts: reads the shim's counters. The tests also run on devices, where there are no counters and counts are 0. If a
 * shim lacks its counter, the test fails. Otherwise its checks of counts would always pass. */
#ifndef TESTS_CUDA_COUNTS_H
#define TESTS_CUDA_COUNTS_H

#include "tests/cuda/shim/counters.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs those before it */

/* A real driver has functions. The library that replaces it on the shim has none. Both stay loaded. */
static inline bool on_device(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver && dlsym(driver, "cuInit");
}

/* A function of the shim. */
static inline void *shim_function(const char *name)
{
    void *plugin = dlopen("libengine_cuda.so", RTLD_NOW); /* beside the program; it stays loaded */
    if (!plugin)
        fail_msg("%s", dlerror());
    void *function = dlsym(plugin, name);
    if (!function)
        fail_msg("the engine beside this program counts nothing, and no device is here");
    return function;
}

/* 0 on a device. */
static inline uint64_t count(enum counter counter)
{
    uint64_t (*shim_count)(int) = NULL;
    if (on_device())
        return 0;
    *(void **)&shim_count = shim_function("shim_count");
    return shim_count((int)counter);
}

/* Launches of all kernels whose name begins with `name`, such as "attend<". 0 on a device. */
static inline uint64_t launches_of(const char *name)
{
    uint64_t (*shim_launches_of)(const char *) = NULL;
    if (on_device())
        return 0;
    *(void **)&shim_launches_of = shim_function("shim_launches_of");
    return shim_launches_of(name);
}

#endif
