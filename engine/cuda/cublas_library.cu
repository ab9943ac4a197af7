#include "engine/cuda/cublas_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <type_traits>

#if defined(CUBLAS_VERSION) && CUBLAS_VERSION >= 120500
static_assert(std::is_same<decltype(&cublasGemmGroupedBatchedEx), decltype(cublas_library::multiply_grouped)>::value,
              "the type matches NVIDIA's declaration");
#endif

bool cublas_library_load(struct cublas_library *library)
{
    char name[32];
    snprintf(name, sizeof name, "libcublas.so.%d", CUDART_VERSION / 1000);
    void *loaded = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!loaded)
        return false;
    const struct {
        const char *name;
        void *function; /* address of the member that receives the function's address */
    } functions[] = {
        {"cublasCreate_v2", (void *)&library->create},
        {"cublasDestroy_v2", (void *)&library->destroy},
        {"cublasSetStream_v2", (void *)&library->set_stream},
        {"cublasGemmGroupedBatchedEx", (void *)&library->multiply_grouped},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        *(void **)functions[i].function = dlsym(loaded, functions[i].name);
        if (!*(void **)functions[i].function) {
            dlclose(loaded);
            return false;
        }
    }
    return true;
}
