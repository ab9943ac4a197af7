/* onednn: whether the shared object of oneDNN is installed on this machine. */
#ifndef TESTS_UNIT_ONEDNN_H
#define TESTS_UNIT_ONEDNN_H

#include "engine/cpu/onednn_library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether oneDNN's shared object can be opened under one of the names that the engine tries. The shared object stays
 * loaded. */
static inline bool has_onednn(void)
{
    void *library = NULL;
#ifdef ONEDNN_LIBRARY
    static const char *const names[] = {ONEDNN_LIBRARIES};
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_LAZY);
#endif
    return library != NULL;
}

#endif
