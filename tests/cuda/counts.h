/* counts: reads the counters of the shim, which replaces CUDA on the CPU. On a device there are no counters, and all
 * counts are 0. If there is neither a device nor a shim with counters, the test fails. A count of 0 would be worse,
 * because the test's checks might pass for the wrong reason. */
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

/* Returns true if there is a real driver. A real driver library contains the function cuInit. The shim's driver library
 * is empty. The library stays loaded. */
static inline bool on_device(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
    return driver && dlsym(driver, "cuInit");
}

/* Returns the address of a function in the shim. The shim's library is in the folder of the program. */
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

/* Returns the value of a counter, or 0 on a device. */
static inline uint64_t count(enum counter counter)
{
    uint64_t (*shim_count)(int) = NULL;
    if (on_device())
        return 0;
    *(void **)&shim_count = shim_function("shim_count");
    return shim_count((int)counter);
}

/* Returns the number of launches of all kernels whose names begin with `name`, such as "attend<". Returns 0 on a
 * device. */
static inline uint64_t launches_of(const char *name)
{
    uint64_t (*shim_launches_of)(const char *) = NULL;
    if (on_device())
        return 0;
    *(void **)&shim_launches_of = shim_function("shim_launches_of");
    return shim_launches_of(name);
}

#endif
