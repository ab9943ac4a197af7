/* counts: what the shim has counted, for tests that run on devices, too, where nobody counts. A shim whose counter is
 * not found fails the test: what it asserts of counts would otherwise pass unseen. */
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

/* A driver has functions; the library that stands for it beside the shim has none. Both stay loaded. */
static inline bool on_device(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver && dlsym(driver, "cuInit");
}

/* 0 on a device. */
static inline uint64_t count(enum counter counter)
{
    uint64_t (*shim_count)(int) = NULL;
    if (on_device())
        return 0;
    void *plugin = dlopen("libengine_cuda.so", RTLD_NOW); /* beside the program; it stays loaded */
    if (!plugin)
        fail_msg("%s", dlerror());
    *(void **)&shim_count = dlsym(plugin, "shim_count");
    if (!shim_count)
        fail_msg("the engine beside this program counts nothing, and no device is here");
    return shim_count((int)counter);
}

#endif
