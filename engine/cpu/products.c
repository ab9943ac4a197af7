#include "engine/cpu/products.h"
#include "engine/cpu/products_onednn.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define ALIGNMENT 64 /* in bytes: one cache line */

/* Constants of cblas.h, which is not needed for building. */
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112 };

/* Names for OPENBLAS_CORETYPE. OpenBLAS 0.3.21 does not recognise the processors Zen 4 and 5, and uses its Haswell
 * kernels for them. On these processors, its SkylakeX kernels are 1.8 times faster. Without a name, OpenBLAS
 * chooses. */
static const char *const core_types[SET_COUNT] = {[SET_AVX2] = "Haswell", [SET_AVX512] = "SkylakeX"};

/* Shortens "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH …" and "SkylakeX" to "OpenBLAS 0.3.21 SkylakeX". */
static void describe(struct products *products, const char *config, const char *core)
{
    int name_and_version = 0;
    for (int spaces = 0; config[name_and_version]; name_and_version++)
        if (config[name_and_version] == ' ' && ++spaces == 2)
            break;
    snprintf(products->description, sizeof products->description, "%.*s %s%s%s", name_and_version, config, core,
             products->onednn || products->bf16 ? ", " : "",
             products->onednn ? onednn_description(products->onednn)
             : products->bf16 ? "bf16"
                              : "");
}

/* Finds a function of the library. dlsym returns an object pointer, which C does not convert to a function pointer. */
static bool find_function(const struct products *products, const char *name, void *function)
{
    void *symbol = dlsym(products->library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

/* AMX multiplies bf16 several times as fast as AVX512_BF16. */
static bool cpu_has_amx(void)
{
#ifdef __x86_64__
    unsigned a, b, c, d;
    const unsigned amx_bf16 = 1u << 22;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & amx_bf16);
#else
    return false;
#endif
}

/* Whether a row has the same bits in every batch. This was measured for many numbers of rows, positions and threads. It
 * is true for OpenBLAS' SkylakeX kernels and oneDNN's kernels for AVX-512. It is false for OpenBLAS' Haswell kernels.
 * Kernels that use AMX were never measured. */
static bool are_batch_invariant(const struct products *products, const char *core_name)
{
    bool amx = products->bf16 && products->onednn && cpu_has_amx();
    return strcmp(core_name, "SkylakeX") == 0 && !amx;
}

/* Bytes of address space that OpenBLAS 0.3.21 maps when it is loaded, and for each thread that multiplies. Both were
 * measured. Most of these bytes are never used. If there is less address space, OpenBLAS retries forever, in its
 * constructor or in a product. */
#define OPENBLAS_LOAD_BYTES (INT64_C(304) << 20)
#define OPENBLAS_BUFFER_BYTES (INT64_C(128) << 20)
#define OPENBLAS_MAX_BUFFERS 128 /* OpenBLAS in Debian has room for 256 buffers */

static int refuse_address_space(int64_t bytes, int threads, struct error *error)
{
    struct rlimit limit;
    long long needed = bytes >> 20;
    if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return error_set(error,
                         "OpenBLAS needs %lld MiB of address space for %d threads (--threads), but the system grants "
                         "less: see vm.overcommit_memory",
                         needed, threads);
    return error_set(error,
                     "OpenBLAS needs %lld MiB of address space for %d threads (--threads), but RLIMIT_AS (ulimit -v) "
                     "limits the whole process to %lld MiB; vm.overcommit_memory may limit it, too",
                     needed, threads, (long long)(limit.rlim_cur >> 20));
}

/* Checks that there is enough address space, by mapping the number of bytes that OpenBLAS will map, and unmapping
 * them. */
static int check_address_space(int threads, struct error *error)
{
    void *loaded = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
    int64_t bytes = OPENBLAS_BUFFER_BYTES * threads + (loaded ? 0 : OPENBLAS_LOAD_BYTES);
    if (loaded)
        dlclose(loaded);
    void *room = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return refuse_address_space(bytes, threads, error);
    munmap(room, (size_t)bytes);
    return 0;
}

/* Lets OpenBLAS map a buffer for each thread in advance. OpenBLAS keeps the buffers, so no product has to map a
 * buffer. */
static void reserve_buffers(const struct products *products, int count)
{
    void *buffers[OPENBLAS_MAX_BUFFERS];
    void *(*take)(int);
    void (*give)(void *);
    if (!find_function(products, "blas_memory_alloc", &take) || !find_function(products, "blas_memory_free", &give))
        return;
    for (int i = 0; i < count; i++)
        buffers[i] = take(0);
    for (int i = 0; i < count; i++)
        if (buffers[i])
            give(buffers[i]);
}

static int open_openblas(enum instruction_set set, struct products *products, struct error *error)
{
    int buffers = products->threads < OPENBLAS_MAX_BUFFERS ? products->threads : OPENBLAS_MAX_BUFFERS;
    if (check_address_space(buffers, error) != 0)
        return -1;
    if (core_types[set])
        setenv("OPENBLAS_CORETYPE", core_types[set], 1);
    else
        unsetenv("OPENBLAS_CORETYPE");
    /* The engine's threads compute different tiles, so OpenBLAS must not start its own threads. */
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
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
    reserve_buffers(products, buffers);
    describe(products, config(), core_name());
    products->batch_invariant = are_batch_invariant(products, core_name());
    return 0;
}

static int open_bf16(enum instruction_set set, enum product_library library, struct products *products,
                     struct error *error)
{
    bool wanted = products->needs_onednn, refused = library == LIBRARY_OPENBLAS;
    products->vector = vector_functions_of_bf16();
    if (refused || !cpu_has_bf16() || set != SET_AVX512 || !products->vector)
        return error_set(error, "dtype bf16 on the CPU needs a processor with AVX512_BF16, kernels \"avx512\", and "
                                "products other than \"openblas\"; f32 has none of these conditions");
    if (!wanted && !cpu_has_amx())
        return 0;
    return onednn_open(products->threads, true, &products->onednn, error) == 0 || !wanted ? 0 : -1;
}

/* Opens oneDNN if float products use it. Its kernels for AVX-512 compute a row with the same bits for every number of
 * rows. Its kernels for AVX2 do not. */
static int open_f32(enum instruction_set set, enum product_library library, struct products *products,
                    struct error *error)
{
    bool wanted = products->needs_onednn, refused = library == LIBRARY_OPENBLAS;
    products->vector = vector_functions_of(set);
    if (refused || (set != SET_AVX512 && !wanted))
        return 0;
    if (set != SET_AVX512)
        return error_set(error, "oneDNN needs the AVX-512 kernels, which are not in use: see --kernels");
    return onednn_open(products->threads, false, &products->onednn, error) == 0 || !wanted ? 0 : -1;
}

int products_open(enum instruction_set set, enum product_library library, bool bf16, int threads,
                  struct products *products, struct error *error)
{
    memset(products, 0, sizeof *products);
    error->message[0] = '\0';
    products->bf16 = bf16;
    products->threads = threads;
    products->needs_onednn = library == LIBRARY_ONEDNN;
    if ((bf16 ? open_bf16 : open_f32)(set, library, products, error) != 0)
        return -1;
    struct error failure;
    if (open_openblas(set, products, &failure) == 0)
        return 0;
    *error = failure;
    onednn_close(products->onednn);
    return -1;
}

/* The libraries stay loaded, because threads still contain thread-local storage of the libraries. */
void products_close(struct products *products)
{
    onednn_close(products->onednn);
    products->onednn = NULL;
    products->library = NULL;
}

/* ---- Weights ---- */

/* One of `packed` and `data` is set, unless there are no elements. */
struct product_weight {
    int64_t columns, depth;
    /* (columns, depth) floats for OpenBLAS, or words (vector_words.h) for the functions of vector.h. */
    const float *data;
    float *owned;                 /* equals `data` if this memory must be freed. NULL if the caller keeps it */
    size_t bytes;                 /* size of the memory at `owned` */
    struct onednn_weight *packed; /* the weight as packed by oneDNN */
};

/* Whether the functions of vector.h compute the tiles of the weight. */
static bool has_own_tiles(const struct products *products, const struct product_weight *weight)
{
    return products->bf16 && !weight->packed;
}

static int64_t words_of(int64_t elements)
{
    return (elements + 1) / 2;
}

/* Allocates memory for the words of the weight. Returns NULL if memory is lacking. */
static float *allocate_words(struct product_weight *weight, int64_t floats)
{
    weight->bytes = ((size_t)floats * sizeof(float) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    weight->data = weight->owned = aligned_alloc(ALIGNMENT, weight->bytes);
    return weight->owned;
}

/* Returns -1 if oneDNN is not used, or if it cannot pack the weight. In the second case `error` contains the reason. */
static int pack_by_onednn(const struct products *products, struct product_weight *weight, const float *w,
                          struct error *error)
{
    if (!products->onednn)
        return -1;
    return onednn_pack(products->onednn, weight->columns, weight->depth, w, &weight->packed, error);
}

static int pack_words(const struct products *products, struct product_weight *weight, const float *w,
                      struct error *error)
{
    if (!allocate_words(weight, vector_packed_weight(weight->columns, weight->depth)))
        return error_set(error, "out of memory while packing a weight");
    products->vector->pack_weight(weight->columns, weight->depth, w, weight->owned);
    return 0;
}

static int pack_weight(const struct products *products, struct product_weight *weight, float *w, bool owned,
                       struct error *error)
{
    int status = pack_by_onednn(products, weight, w, error);
    if (status != 0 && !products->needs_onednn && !products->bf16) {
        weight->data = w;
        weight->owned = owned ? w : NULL;
        weight->bytes = owned ? (size_t)(weight->columns * weight->depth) * sizeof *w : 0;
        return 0;
    }
    if (status != 0 && !products->needs_onednn)
        status = pack_words(products, weight, w, error);
    free(owned ? w : NULL);
    return status;
}

int products_take_weight(const struct products *products, int64_t columns, int64_t depth, float *w, bool owned,
                         struct product_weight **taken, struct error *error)
{
    struct product_weight *weight = malloc(sizeof *weight);
    error->message[0] = '\0';
    if (!weight) {
        free(owned ? w : NULL);
        return error_set(error, "out of memory while preparing a weight");
    }
    *weight = (struct product_weight){.columns = columns, .depth = depth};
    if (pack_weight(products, weight, w, owned, error) != 0) {
        free(weight);
        return -1;
    }
    *taken = weight;
    return 0;
}

/* The number of positions of e that are transposed at a time. It is even. */
#define TURNED 256

/* Copies positions [first, first + count) of column j of E to part (count). j is a number among the columns of all
 * groups. */
static void projection_part(int64_t n, int64_t k, bool transposed, const float *e, int64_t j, int64_t first,
                            int64_t count, float *part)
{
    const float *from = transposed ? e + j * n + first : e + (j / k * n + first) * k + j % k;
    for (int64_t i = 0; i < count; i++)
        part[i] = from[transposed ? i : i * k];
}

/* Packs Eᵀ (groups * k, n) as words. Kernels may read some rows after these rows. The additional rows are 0. */
int products_take_projection(const struct products *products, int64_t groups, int64_t n, int64_t k, bool transposed,
                             const float *e, struct product_weight **taken, struct error *error)
{
    int64_t rows = groups * k, room = rows + VECTOR_TILE_ROWS - 1;
    float part[TURNED];
    struct product_weight *weight = malloc(sizeof *weight);
    if (weight)
        *weight = (struct product_weight){.columns = rows, .depth = n};
    if (!weight || !allocate_words(weight, room * words_of(n))) {
        free(weight);
        return error_set(error, "out of memory while packing a weight");
    }
    for (int64_t first = 0; first < n; first += TURNED) {
        int64_t count = n - first < TURNED ? n - first : TURNED;
        for (int64_t j = 0; j < rows; j++) {
            projection_part(n, k, transposed, e, j, first, count, part);
            products->vector->to_words(1, count, ELEMENT_F32, part, weight->owned + j * words_of(n) + first / 2);
        }
    }
    memset(weight->owned + rows * words_of(n), 0, (size_t)((room - rows) * words_of(n)) * sizeof *weight->owned);
    *taken = weight;
    return 0;
}

void products_free_weight(const struct products *products, struct product_weight *weight)
{
    if (!weight)
        return;
    if (products->onednn)
        onednn_free_weight(products->onednn, weight->packed);
    free(weight->owned);
    free(weight);
}

size_t products_weight_bytes(const struct product_weight *weight)
{
    return weight->packed ? onednn_weight_bytes(weight->packed) : weight->bytes;
}

/* ---- Tiles of products with a weight ---- */

/* The scratch contains the tile, oneDNN's scratchpad, and the rows as bf16, in this order. */

#define TILE_FLOATS (PLAN_ROW_BLOCK * PRODUCTS_PANEL)
#define SCRATCHPAD_FLOATS (ONEDNN_SCRATCHPAD_BYTES / (int64_t)sizeof(float))

_Static_assert(PRODUCTS_PANEL % VECTOR_PANEL == 0 && VECTOR_LINEAR_SCRATCH <= TILE_FLOATS, "panels fit");

int64_t products_linear_scratch(const struct products *products, int64_t depth)
{
    int64_t floats = products->bf16 && !products->onednn ? VECTOR_LINEAR_SCRATCH : TILE_FLOATS;
    if (products->onednn)
        floats += SCRATCHPAD_FLOATS;
    if (products->bf16)
        floats += PLAN_ROW_BLOCK * words_of(depth);
    return floats;
}

/* bf16 rows with an odd depth are copied for the functions of vector.h. Otherwise some rows would begin within a word.
 */
const void *products_linear_rows(const struct products *products, const struct product_weight *weight, int64_t rows,
                                 enum element element, const void *x, float *scratch)
{
    bool own = has_own_tiles(products, weight);
    int64_t depth = weight->depth;
    if (!products->bf16 || (element == ELEMENT_BF16 && !(own && depth % 2)))
        return x;
    float *copy = scratch + (own ? VECTOR_LINEAR_SCRATCH : TILE_FLOATS + SCRATCHPAD_FLOATS);
    if (own)
        products->vector->to_words(rows, depth, element, x, copy);
    else
        products->vector->to_bf16(rows * depth, x, (uint16_t *)copy);
    return copy;
}

/* Computes the product (PLAN_ROW_BLOCK, columns) into scratch. */
static int multiply_tile(const struct products *products, const struct product_tile *tile, int64_t columns,
                         float *scratch, int thread)
{
    const struct product_weight *weight = tile->weight;
    if (weight->packed)
        return onednn_tile(products->onednn, weight->packed, tile->panel, tile->finish.rows, tile->x, scratch,
                           scratch + TILE_FLOATS, thread);
    int width = (int)columns, depth = (int)weight->depth;
    products->sgemm(ROW_MAJOR, NO_TRANSPOSE, TRANSPOSE, PLAN_ROW_BLOCK, width, depth, 1.0f, tile->x, depth,
                    weight->data + tile->panel * PRODUCTS_PANEL * weight->depth, depth, 0.0f, scratch, width);
    return 0;
}

int products_linear_tile(const struct products *products, const struct product_tile *tile, float *scratch, int thread)
{
    int64_t first = tile->panel * PRODUCTS_PANEL, left = tile->weight->columns - first;
    int64_t columns = left < PRODUCTS_PANEL ? left : PRODUCTS_PANEL;
    struct vector_finish finish = vector_finish_columns(&tile->finish, first, columns);
    if (has_own_tiles(products, tile->weight)) {
        products->vector->linear(&(struct vector_linear){
            .depth = tile->weight->depth,
            .x = tile->x,
            .weight = tile->weight->data + first * words_of(tile->weight->depth),
            .finish = finish,
            .scratch = scratch,
        });
        return 0;
    }
    if (multiply_tile(products, tile, columns, scratch, thread) != 0)
        return -1;
    finish.x = scratch;
    finish.x_stride = columns;
    products->vector->finish_linear(&finish);
    return 0;
}

/* ---- Projections ---- */

/* The scratch contains the result, followed by the scratch of `project` in vector.h. */

static int64_t projected_floats(int64_t k)
{
    return (k + VECTOR_TILE_ROWS - 1) * VECTOR_PANEL;
}

int64_t products_project_scratch(const struct products *products, int64_t k)
{
    return products->bf16 ? projected_floats(k) + VECTOR_PROJECT_SCRATCH + k + VECTOR_TILE_ROWS - 1 : 0;
}

float *products_project(const struct products *products, const struct product_projection *projection, float *scratch)
{
    int64_t stride = words_of(projection->weight->depth);
    products->vector->project(&(struct vector_project){
        .k = projection->k,
        .rows = projection->rows,
        .columns = projection->columns,
        .e = projection->weight->data + projection->first_k * stride + projection->first / 2,
        .e_stride = stride,
        .x = projection->x,
        .x_stride = projection->x_stride,
        .x_element = projection->x_element,
        .c = scratch,
        .scratch = scratch + projected_floats(projection->k),
    });
    return scratch;
}

void products_multiply(const struct products *products, const struct product *p)
{
    products->sgemm(ROW_MAJOR, p->transpose_a ? TRANSPOSE : NO_TRANSPOSE, p->transpose_b ? TRANSPOSE : NO_TRANSPOSE,
                    (int)p->m, (int)p->n, (int)p->k, 1.0f, p->a, (int)p->a_stride, p->b, (int)p->b_stride, 0.0f, p->c,
                    (int)p->c_stride);
}
