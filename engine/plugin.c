/* plugin: finds the plugin with the CUDA backend, and loads it if there is a driver. The plugin needs cuBLASLt, a
 * library of half a gigabyte. If the library is not in the disk cache, loading it takes seconds. So without a driver
 * the plugin is not loaded. */
#include "engine/backend.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRIVER "libcuda.so.1"

/* Places of the plugin relative to the folder of the program: after building, and after installation. */
static const char *const places[] = {"libengine_cuda.so", "../lib/linformerd/libengine_cuda.so"};

/* The folder of the running program, with a slash at the end. */
static int find_program_folder(char folder[PATH_MAX], struct error *error)
{
    ssize_t length = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (length < 1)
        return error_set(error, "cannot read the path of the program from /proc/self/exe");
    folder[length] = '\0';
    strrchr(folder, '/')[1] = '\0';
    return 0;
}

static int find_plugin(char path[PATH_MAX], struct error *error)
{
    char folder[PATH_MAX];
    if (find_program_folder(folder, error) != 0)
        return -1;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        int length = snprintf(path, PATH_MAX, "%s%s", folder, places[i]);
        if (length < PATH_MAX && access(path, R_OK) == 0)
            return 0;
    }
    return error_set(error, "an NVIDIA driver is installed, but %s is missing in %s and in %s../lib/linformerd",
                     places[0], folder, folder);
}

const struct backend_functions *backend_cuda_load(struct error *error)
{
    char path[PATH_MAX];
    const struct backend_functions *functions = NULL;
    void *driver = dlopen(DRIVER, RTLD_LAZY);
    if (!driver) {
        error_set(error, "no NVIDIA driver on this machine (%s)", DRIVER);
        return NULL;
    }
    dlclose(driver);
    if (find_plugin(path, error) != 0)
        return NULL;
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!plugin) {
        error_set(error, "the CUDA engine cannot be loaded: %s", dlerror());
        return NULL;
    }
    backend_symbol *symbol;
    *(void **)&symbol = dlsym(plugin, BACKEND_SYMBOL);
    if (symbol)
        functions = symbol(backend_abi());
    if (!functions) {
        error_set(error, "%s belongs to another version of this program", path);
        dlclose(plugin);
    }
    return functions;
}
