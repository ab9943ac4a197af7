#include "engine/cpu/products.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* cblas.h's values; the header itself is not needed to build. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

/* OpenBLAS 0.3.21 knows no Zen 4 and 5 and takes them for Haswell; asked for SkylakeX it is 1.8 times faster there. A
 * set that needs no name leaves OpenBLAS to its own choice. */
static const char *const core_types[SET_COUNT] = {[SET_AVX2] = "Haswell", [SET_AVX512] = "SkylakeX"};

/* "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …" and "SkylakeX" -> "OpenBLAS 0.3.21 SkylakeX" */
static void describe(struct products *products, const char *config, const char *core)
{
    int name_and_version = 0;
    for (int spaces = 0; config[name_and_version]; name_and_version++)
        if (config[name_and_version] == ' ' && ++spaces == 2)
            break;
    snprintf(products->description, sizeof products->description, "%.*s %s", name_and_version, config, core);
}

/* A function of the library as a pointer of any type: dlsym returns an object pointer, C wants the detour. */
static bool find_function(const struct products *products, const char *name, void *function)
{
    void *symbol = dlsym(products->library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

int products_open(enum instruction_set set, struct products *products, struct error *error)
{
    memset(products, 0, sizeof *products);
    if (core_types[set])
        setenv("OPENBLAS_CORETYPE", core_types[set], 1);
    else
        unsetenv("OPENBLAS_CORETYPE");
    setenv("OPENBLAS_NUM_THREADS", "1", 1); /* the tiles are the threads' work */
    products->library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (!products->library)
        return error_set(error, "OpenBLAS cannot be loaded: %s", dlerror());
    void (*set_threads)(int);
    char *(*config)(void);
    char *(*core_name)(void);
    if (!find_function(products, "cblas_sgemm", &products->sgemm) ||
        !find_function(products, "openblas_set_num_threads", &set_threads) ||
        !find_function(products, "openblas_get_config", &config) ||
        !find_function(products, "openblas_get_corename", &core_name)) {
        dlclose(products->library);
        return error_set(error, "libopenblas.so.0 lacks a function of OpenBLAS: is it another library's file?");
    }
    set_threads(1);
    describe(products, config(), core_name());
    /* Measured over row counts, positions and threads: these kernels give the same bits at the same shape. Haswell's
     * do not. */
    products->batch_invariant = strcmp(core_name(), "SkylakeX") == 0;
    return 0;
}

void products_close(struct products *products)
{
    if (products->library)
        dlclose(products->library);
    products->library = NULL;
}

void products_linear_tile(const struct products *products, int64_t columns, int64_t depth, const float *x,
                          int64_t x_stride, const float *w, float *y, int64_t y_stride)
{
    products->sgemm(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, PLAN_ROW_BLOCK, (int)columns, (int)depth, 1.0f, x,
                    (int)x_stride, w, (int)depth, 0.0f, y, (int)y_stride);
}

void products_multiply(const struct products *products, const struct product *p)
{
    products->sgemm(ROW_MAJOR, p->transpose_a ? TRANSPOSE : NO_TRANSPOSE, p->transpose_b ? TRANSPOSE : NO_TRANSPOSE,
                    (int)p->m, (int)p->n, (int)p->k, 1.0f, p->a, (int)p->a_stride, p->b, (int)p->b_stride, 0.0f, p->c,
                    (int)p->c_stride);
}
