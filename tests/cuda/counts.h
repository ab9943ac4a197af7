/* counts: reads the shim's counters. On a device there are no counters, and all counts are 0. If the shim lacks a
 * counter, the test fails. With a count of 0 instead, its checks might pass for the wrong reason. */
#ifndef TESTS_CUDA_COUNTS_H
#define TESTS_CUDA_COUNTS_H

#include "tests/cuda/shim/counters.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs the headers above */

/* True if there is a real driver. It has functions, while the shim's driver library has none. The library stays
 * loaded. */
static inline bool on_device(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver && dlsym(driver, "cuInit");
}

/* The address of a function in the shim. The shim's library is in the folder of the program. */
static inline void *shim_function(const char *name)
{
    void *plugin = dlopen("libengine_cuda.so", RTLD_NOW); /* the library stays loaded */
    if (!plugin)
        fail_msg("%s", dlerror());
    void *function = dlsym(plugin, name);
    if (!function)
        fail_msg("libengine_cuda.so beside this program has no counters, and there is no device");
    return function;
}

/* The value of a counter. Returns 0 on a device. */
static inline uint64_t count(enum counter counter)
{
    uint64_t (*shim_count)(int) = NULL;
    if (on_device())
        return 0;
    *(void **)&shim_count = shim_function("shim_count");
    return shim_count((int)counter);
}

/* The number of launches of all kernels whose names begin with `name`, such as "attend<". Returns 0 on a device. */
static inline uint64_t launches_of(const char *name)
{
    uint64_t (*shim_launches_of)(const char *) = NULL;
    if (on_device())
        return 0;
    *(void **)&shim_launches_of = shim_function("shim_launches_of");
    return shim_launches_of(name);
}

#endif
