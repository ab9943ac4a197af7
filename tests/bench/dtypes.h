/* dtypes: reads the dtype in the arguments of a program. */
#ifndef TESTS_BENCH_DTYPES_H
#define TESTS_BENCH_DTYPES_H

#include "config/config.h"

#include <string.h>

/* Returns -1 for an unknown name. */
static inline int dtype_from_name(const char *name)
{
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (strcmp(name, dtype_name((enum dtype)i)) == 0)
            return i;
    return -1;
}

#endif
