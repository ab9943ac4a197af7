#include "engine/cpu/products.h"
#include "engine/cpu/products_onednn.h"

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
    snprintf(products->description, sizeof products->description, "%.*s %s%s%s", name_and_version, config, core,
             products->onednn ? ", " : "", products->onednn ? onednn_description(products->onednn) : "");
}

/* A function of the library as a pointer of any type: dlsym returns an object pointer, C wants the detour. */
static bool find_function(const struct products *products, const char *name, void *function)
{
    void *symbol = dlsym(products->library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static int open_openblas(enum instruction_set set, struct products *products, struct error *error)
{
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

/* oneDNN's kernels for AVX-512 give a row the same bits whatever the number of rows; those for AVX2 do not. */
static int open_onednn(enum instruction_set set, const char *provider, struct products *products, struct error *error)
{
    bool wanted = provider && strcmp(provider, "onednn") == 0, refused = provider && strcmp(provider, "openblas") == 0;
    if (products->bf16 && (refused || !cpu_has_bf16() || set != SET_AVX512))
        return error_set(error,
                         "dtype bf16 on the CPU needs oneDNN and a processor with AVX512_BF16; f32 needs neither");
    if (refused || (set != SET_AVX512 && !wanted))
        return 0;
    if (set != SET_AVX512)
        return error_set(error, "oneDNN is used with AVX-512 kernels alone, and these are not chosen: see --kernels");
    if (onednn_open(products->threads, products->bf16, &products->onednn, error) == 0)
        return 0;
    return wanted || products->bf16 ? -1 : 0;
}

int products_open(enum instruction_set set, const char *provider, bool bf16, int threads, struct products *products,
                  struct error *error)
{
    memset(products, 0, sizeof *products);
    products->bf16 = bf16;
    products->threads = threads;
    if (open_onednn(set, provider, products, error) != 0)
        return -1;
    if (open_openblas(set, products, error) == 0)
        return 0;
    onednn_close(products->onednn);
    return -1;
}

/* The libraries stay loaded: threads have storage of theirs. */
void products_close(struct products *products)
{
    onednn_close(products->onednn);
    products->onednn = NULL;
    products->library = NULL;
}

/* ---- Weights ---- */

struct product_weight {
    int64_t columns, depth;
    float *data;                  /* OpenBLAS: (columns, depth) */
    struct onednn_weight *packed; /* oneDNN */
};

int products_take_weight(const struct products *products, int64_t columns, int64_t depth, float *w,
                         struct product_weight **taken, struct error *error)
{
    struct product_weight *weight = malloc(sizeof *weight);
    if (!weight) {
        free(w);
        return error_set(error, "out of memory while taking over a weight");
    }
    *weight = (struct product_weight){.columns = columns, .depth = depth};
    if (products->onednn) {
        int status = onednn_pack(products->onednn, columns, depth, w, &weight->packed, error);
        free(w);
        if (status != 0) {
            free(weight);
            return -1;
        }
    } else {
        weight->data = w;
    }
    *taken = weight;
    return 0;
}

void products_free_weight(const struct products *products, struct product_weight *weight)
{
    if (!weight)
        return;
    if (products->onednn)
        onednn_free_weight(products->onednn, weight->packed);
    free(weight->data);
    free(weight);
}

size_t products_weight_bytes(const struct product_weight *weight)
{
    return weight->packed ? onednn_weight_bytes(weight->packed)
                          : (size_t)(weight->columns * weight->depth) * sizeof(float);
}

/* ---- Linear tiles. The scratch: the tile, oneDNN's scratchpad, the rows as bf16. ---- */

#define TILE_FLOATS (PLAN_ROW_BLOCK * PRODUCTS_PANEL)
#define SCRATCHPAD_FLOATS (ONEDNN_SCRATCHPAD_BYTES / (int64_t)sizeof(float))

int64_t products_linear_scratch(const struct products *products, int64_t depth)
{
    int64_t floats = TILE_FLOATS;
    if (products->onednn)
        floats += SCRATCHPAD_FLOATS;
    if (products->bf16)
        floats += PLAN_ROW_BLOCK * ((depth + 1) / 2);
    return floats;
}

const void *products_linear_rows(const struct products *products, int64_t rows, int64_t depth, const float *x,
                                 float *scratch)
{
    if (!products->bf16)
        return x;
    uint16_t *copy = (uint16_t *)(scratch + TILE_FLOATS + SCRATCHPAD_FLOATS);
    vector_functions_of(SET_AVX512)->to_bf16(rows * depth, x, copy);
    return copy;
}

const float *products_linear_tile(const struct products *products, const struct product_weight *weight, int64_t panel,
                                  int64_t rows, const void *x, float *scratch, int thread)
{
    if (products->onednn) {
        int status =
            onednn_tile(products->onednn, weight->packed, panel, rows, x, scratch, scratch + TILE_FLOATS, thread);
        return status == 0 ? scratch : NULL;
    }
    int64_t first = panel * PRODUCTS_PANEL, left = weight->columns - first;
    int width = (int)(left < PRODUCTS_PANEL ? left : PRODUCTS_PANEL), depth = (int)weight->depth;
    products->sgemm(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, PLAN_ROW_BLOCK, width, depth, 1.0f, x, depth,
                    weight->data + first * depth, depth, 0.0f, scratch, width);
    return scratch;
}

void products_multiply(const struct products *products, const struct product *p)
{
    products->sgemm(ROW_MAJOR, p->transpose_a ? TRANSPOSE : NO_TRANSPOSE, p->transpose_b ? TRANSPOSE : NO_TRANSPOSE,
                    (int)p->m, (int)p->n, (int)p->k, 1.0f, p->a, (int)p->a_stride, p->b, (int)p->b_stride, 0.0f, p->c,
                    (int)p->c_stride);
}
