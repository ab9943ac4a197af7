#include "engine/cpu/products_onednn.h"

#include "engine/cpu/onednn_library.h"

#ifdef ONEDNN_LIBRARY

#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALIGNMENT 64 /* in bytes: one cache line */
#define TRIED 16     /* number of rows, and of columns, of the small weight that is packed when the library is opened */
#define ONEDNN_CODE_BYTES ((size_t)16 << 20) /* several times the size of a primitive's code */

/* The numbers of rows for which primitives are made. The kernels compute a row with the same bits for all of these
 * numbers. This was measured, and tests/unit/test_products.c tests it. In generation, products have few rows. Such a
 * product takes only the time to read the weight. */
static const int64_t row_counts[] = {1, 4, 8, 16, 32, 48, 56, PLAN_ROW_BLOCK};
enum { ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

/* The operands of one thread. Each thread has its own memory objects, because their addresses change with each call. */
struct thread_memory {
    dnnl_memory_t x, y, scratchpad;
};

struct primitive {
    dnnl_primitive_t primitive;
    struct thread_memory *of_threads; /* by thread: its memory objects */
};

/* The primitives for all panels of one width and depth. They are freed when the last weight that uses them is freed. */
struct shape {
    int64_t depth, width;
    int64_t users;
    struct matrix packed;
    struct primitive primitives[ROW_COUNTS];
    struct shape *next;
};

struct onednn {
    void *library;
    struct onednn_functions call;
    dnnl_engine_t engine;
    /* One for each thread, followed by one for packing, because weights may be packed while batches run. */
    dnnl_stream_t *streams;
    int threads;
    bool bf16;
    struct shape *shapes; /* a list. It changes when a weight is packed or freed, by one thread at a time */
    char description[48];
};

struct onednn_weight {
    int64_t panels;
    size_t bytes;
    char *data; /* all panels, one after another */
    /* The shape of all panels except the last, and the shape of the last panel. NULL until found. */
    struct shape *whole, *last;
    dnnl_memory_t memories[]; /* by panel: its memory object */
};

static const char *const failure = "oneDNN: %s failed with status %d";

/* ---- The library ---- */

static int find_functions(struct onednn *onednn, struct error *error)
{
#define FIND(name)                                                   \
    {                                                                \
        void *symbol = dlsym(onednn->library, #name);                \
        if (!symbol)                                                 \
            return error_set(error, ONEDNN_LIBRARY " lacks " #name); \
        memcpy(&onednn->call.name, &symbol, sizeof symbol);          \
    }
    ONEDNN_FUNCTIONS(FIND)
#undef FIND
    return 0;
}

static void *load_library(struct error *error)
{
    static const char *const names[] = {ONEDNN_LIBRARIES};
    void *library = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        error_set(error, "oneDNN cannot be loaded: %s", dlerror());
    return library;
}

static int create_streams(struct onednn *onednn, struct error *error)
{
    onednn->streams = calloc((size_t)onednn->threads + 1, sizeof *onednn->streams);
    if (!onednn->streams)
        return error_set(error, "out of memory while opening oneDNN");
    int status = onednn->call.dnnl_engine_create(&onednn->engine, dnnl_cpu, 0);
    for (int i = 0; i <= onednn->threads && status == 0; i++)
        status = onednn->call.dnnl_stream_create(&onednn->streams[i], onednn->engine, dnnl_stream_default_flags);
    return status ? error_set(error, failure, "creating an engine", status) : 0;
}

/* Packs a small weight, to test whether oneDNN can generate code. Some systems forbid this. */
static int try_to_pack(struct onednn *onednn, struct error *error)
{
    const float w[TRIED * TRIED] = {0};
    struct onednn_weight *weight;
    if (onednn_pack(onednn, TRIED, TRIED, w, &weight, error) != 0)
        return error_set(error,
                         "oneDNN cannot generate code (%.100s): does the system forbid memory that is both writable "
                         "and executable (systemd's MemoryDenyWriteExecute)?",
                         error->message);
    onednn_free_weight(onednn, weight);
    return 0;
}

int onednn_open(int threads, bool bf16, struct onednn **opened, struct error *error)
{
    struct onednn *onednn = calloc(1, sizeof *onednn);
    if (!onednn)
        return error_set(error, "out of memory while opening oneDNN");
    onednn->threads = threads;
    onednn->bf16 = bf16;
    onednn->library = load_library(error);
    if (!onednn->library) {
        free(onednn);
        return -1;
    }
    if (find_functions(onednn, error) != 0 || create_streams(onednn, error) != 0 || try_to_pack(onednn, error) != 0) {
        onednn_close(onednn);
        return -1;
    }
    const dnnl_version_t *version = onednn->call.dnnl_version();
    snprintf(onednn->description, sizeof onednn->description, "oneDNN %d.%d.%d%s", version->major, version->minor,
             version->patch, bf16 ? " bf16" : "");
    *opened = onednn;
    return 0;
}

static void destroy_primitive(struct onednn *onednn, struct primitive *primitive)
{
    for (int i = 0; primitive->of_threads && i < onednn->threads; i++) {
        const dnnl_memory_t memories[] = {primitive->of_threads[i].x, primitive->of_threads[i].y,
                                          primitive->of_threads[i].scratchpad};
        for (size_t m = 0; m < sizeof memories / sizeof *memories; m++)
            if (memories[m])
                onednn->call.dnnl_memory_destroy(memories[m]);
    }
    free(primitive->of_threads);
    if (primitive->primitive)
        onednn->call.dnnl_primitive_destroy(primitive->primitive);
}

static void free_shape(struct onednn *onednn, struct shape *shape)
{
    for (int i = 0; i < ROW_COUNTS; i++)
        destroy_primitive(onednn, &shape->primitives[i]);
    forget_matrix(&onednn->call, &shape->packed);
    free(shape);
}

void onednn_close(struct onednn *onednn)
{
    if (!onednn)
        return;
    for (int i = 0; onednn->streams && i <= onednn->threads; i++)
        if (onednn->streams[i])
            onednn->call.dnnl_stream_destroy(onednn->streams[i]);
    if (onednn->engine)
        onednn->call.dnnl_engine_destroy(onednn->engine);
    free(onednn->streams);
    free(onednn);
}

const char *onednn_description(const struct onednn *onednn)
{
    return onednn->description;
}

/* ---- Primitives ---- */

static int create_memories(const struct onednn *onednn, struct primitive *primitive, const struct matrix *x,
                           const struct matrix *y, const struct matrix *scratchpad)
{
    int status = 0;
    primitive->of_threads = calloc((size_t)onednn->threads, sizeof *primitive->of_threads);
    if (!primitive->of_threads)
        return dnnl_out_of_memory;
    for (int i = 0; i < onednn->threads && status == 0; i++) {
        struct thread_memory *own = &primitive->of_threads[i];
        status = create_memory(&onednn->call, &own->x, x, onednn->engine, DNNL_MEMORY_NONE);
        if (status == 0)
            status = create_memory(&onednn->call, &own->y, y, onednn->engine, DNNL_MEMORY_NONE);
        if (status == 0)
            status = create_memory(&onednn->call, &own->scratchpad, scratchpad, onednn->engine, DNNL_MEMORY_NONE);
    }
    return status;
}

/* After success the caller must destroy *description. */
static int describe_product(const struct onednn *onednn, const struct matrix *x, const struct matrix *w,
                            const struct matrix *y, dnnl_primitive_desc_t *description)
{
    const struct onednn_functions *call = &onednn->call;
    dnnl_primitive_attr_t attributes;
    int status = call->dnnl_primitive_attr_create(&attributes);
    if (status != 0)
        return status;
    status = call->dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status == 0)
        status = describe_matmul(call, description, onednn->engine, x, w, y, attributes);
    call->dnnl_primitive_attr_destroy(attributes);
    return status;
}

/* Descriptions of the operands of a primitive except the weight. */
struct operands {
    struct matrix x, y, scratchpad;
};

/* Whether there is enough address space for the code that a primitive generates. If there is less, oneDNN 2.6 writes
 * to an address near 0. */
static bool has_room_for_code(void)
{
    void *room =
        mmap(NULL, ONEDNN_CODE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return room != MAP_FAILED && munmap(room, ONEDNN_CODE_BYTES) == 0;
}

static int create_described(const struct onednn *onednn, dnnl_primitive_desc_t description, struct shape *shape,
                            struct operands *operands, struct primitive *primitive)
{
    const struct onednn_functions *call = &onednn->call;
    int status = ask_matrix(call, description, dnnl_query_scratchpad_md, &operands->scratchpad);
    if (status == 0)
        status = ask_matrix(call, description, dnnl_query_weights_md, &shape->packed);
    if (status == 0 && matrix_bytes(call, &operands->scratchpad) > ONEDNN_SCRATCHPAD_BYTES)
        status = dnnl_unimplemented;
    if (status == 0 && !has_room_for_code())
        status = dnnl_out_of_memory;
    if (status == 0)
        status = call->dnnl_primitive_create(&primitive->primitive, description);
    if (status == 0)
        status = create_memories(onednn, primitive, &operands->x, &operands->y, &operands->scratchpad);
    return status;
}

/* Creates the primitive y (rows, width) = x (rows, depth) w (depth, width). shape->packed describes how w is stored in
 * memory. If its format kind is "any", the library chooses the description, and the function sets it. */
static int create_primitive(const struct onednn *onednn, int64_t rows, struct shape *shape, struct primitive *primitive)
{
    const struct onednn_functions *call = &onednn->call;
    dnnl_dims_t x_sizes = {rows, shape->depth}, y_sizes = {rows, shape->width};
    struct operands operands = {0};
    dnnl_primitive_desc_t description;
    int status = describe_matrix(call, &operands.x, x_sizes, onednn->bf16 ? dnnl_bf16 : dnnl_f32, dnnl_ab);
    if (status == 0)
        status = describe_matrix(call, &operands.y, y_sizes, dnnl_f32, dnnl_ab);
    if (status == 0)
        status = describe_product(onednn, &operands.x, &shape->packed, &operands.y, &description);
    if (status == 0) {
        status = create_described(onednn, description, shape, &operands, primitive);
        call->dnnl_primitive_desc_destroy(description);
    }
    forget_matrix(call, &operands.x);
    forget_matrix(call, &operands.y);
    forget_matrix(call, &operands.scratchpad);
    return status;
}

/* Returns the shape, and creates it if it does not exist. After success the caller must call drop_shape. Returns NULL
 * after a failure, and sets `status` to the reason. */
static struct shape *use_shape(struct onednn *onednn, int64_t depth, int64_t width, int *status)
{
    for (struct shape *shape = onednn->shapes; shape; shape = shape->next) {
        if (shape->depth == depth && shape->width == width) {
            shape->users++;
            return shape;
        }
    }
    struct shape *shape = calloc(1, sizeof *shape);
    *status = shape ? dnnl_success : dnnl_out_of_memory;
    if (!shape)
        return NULL;
    dnnl_dims_t sizes = {depth, width};
    shape->depth = depth;
    shape->width = width;
    shape->users = 1;
    *status =
        describe_matrix(&onednn->call, &shape->packed, sizes, onednn->bf16 ? dnnl_bf16 : dnnl_f32, dnnl_format_tag_any);
    for (int i = ROW_COUNTS - 1; i >= 0 && *status == 0;
         i--) /* the primitive for the largest number of rows determines how the weight is stored */
        *status = create_primitive(onednn, row_counts[i], shape, &shape->primitives[i]);
    if (*status != 0) {
        free_shape(onednn, shape);
        return NULL;
    }
    shape->next = onednn->shapes;
    onednn->shapes = shape;
    return shape;
}

static void drop_shape(struct onednn *onednn, struct shape *shape)
{
    if (!shape || --shape->users > 0)
        return;
    struct shape **place = &onednn->shapes;
    while (*place != shape)
        place = &(*place)->next;
    *place = shape->next;
    free_shape(onednn, shape);
}

/* ---- Weights ---- */

static size_t panel_bytes(const struct onednn *onednn, const struct shape *shape)
{
    size_t bytes = matrix_bytes(&onednn->call, &shape->packed);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int reorder(const struct onednn *onednn, const struct matrix *from, dnnl_memory_t source,
                   const struct matrix *to, dnnl_memory_t target)
{
    const struct onednn_functions *call = &onednn->call;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t primitive;
    int status = call->dnnl_reorder_primitive_desc_create(&description, borrow_matrix(from), onednn->engine,
                                                          borrow_matrix(to), onednn->engine, NULL);
    if (status != 0)
        return status;
    status = call->dnnl_primitive_create(&primitive, description);
    call->dnnl_primitive_desc_destroy(description);
    if (status != 0)
        return status;
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}};
    status = call->dnnl_primitive_execute(primitive, onednn->streams[onednn->threads], 2, arguments);
    call->dnnl_primitive_destroy(primitive);
    return status;
}

/* Packs w (width, depth) into the panel's memory. */
static int pack_panel(const struct onednn *onednn, const struct shape *shape, const float *w, dnnl_memory_t panel)
{
    const struct onednn_functions *call = &onednn->call;
    dnnl_dims_t sizes = {shape->depth, shape->width}, strides = {1, shape->depth};
    struct matrix from = {0};
    dnnl_memory_t memory;
    void *address;
    memcpy(&address, &w, sizeof address); /* oneDNN only reads w, so removing `const` is safe */
    int status = describe_strides(call, &from, sizes, dnnl_f32, strides);
    if (status != 0)
        return status;
    status = create_memory(call, &memory, &from, onednn->engine, address);
    if (status == 0) {
        status = reorder(onednn, &from, memory, &shape->packed, panel);
        call->dnnl_memory_destroy(memory);
    }
    forget_matrix(call, &from);
    return status;
}

static int pack_panels(const struct onednn *onednn, const float *w, struct onednn_weight *weight)
{
    size_t bytes = panel_bytes(onednn, weight->whole);
    weight->bytes = (size_t)(weight->panels - 1) * bytes + panel_bytes(onednn, weight->last);
    weight->data = aligned_alloc(ALIGNMENT, weight->bytes);
    if (!weight->data)
        return dnnl_out_of_memory;
    int status = 0;
    for (int64_t p = 0; p < weight->panels && status == 0; p++) {
        const struct shape *shape = p + 1 < weight->panels ? weight->whole : weight->last;
        status = create_memory(&onednn->call, &weight->memories[p], &shape->packed, onednn->engine,
                               weight->data + (size_t)p * bytes);
        if (status == 0)
            status = pack_panel(onednn, shape, w + p * PRODUCTS_PANEL * shape->depth, weight->memories[p]);
    }
    return status;
}

int onednn_pack(struct onednn *onednn, int64_t columns, int64_t depth, const float *w, struct onednn_weight **packed,
                struct error *error)
{
    int64_t panels = (columns + PRODUCTS_PANEL - 1) / PRODUCTS_PANEL;
    struct onednn_weight *weight = calloc(1, sizeof *weight + (size_t)panels * sizeof weight->memories[0]);
    if (!weight)
        return error_set(error, "out of memory while packing a weight");
    int status = 0;
    omp_set_num_threads(1); /* primitives run on one thread, so they must be made for one thread */
    weight->panels = panels;
    weight->last = use_shape(onednn, depth, columns - (panels - 1) * PRODUCTS_PANEL, &status);
    if (status == 0)
        weight->whole = use_shape(onednn, depth, panels > 1 ? PRODUCTS_PANEL : columns, &status);
    if (status == 0)
        status = pack_panels(onednn, w, weight);
    if (status != 0) {
        onednn_free_weight(onednn, weight);
        return error_set(error, failure, "packing a weight", status);
    }
    *packed = weight;
    return 0;
}

void onednn_free_weight(struct onednn *onednn, struct onednn_weight *weight)
{
    if (!weight)
        return;
    for (int64_t p = 0; p < weight->panels; p++)
        if (weight->memories[p])
            onednn->call.dnnl_memory_destroy(weight->memories[p]);
    drop_shape(onednn, weight->whole);
    drop_shape(onednn, weight->last);
    free(weight->data);
    free(weight);
}

size_t onednn_weight_bytes(const struct onednn_weight *weight)
{
    return weight->bytes;
}

/* ---- Tiles ---- */

int onednn_tile(const struct onednn *onednn, const struct onednn_weight *weight, int64_t panel, int64_t rows,
                const void *x, float *y, void *scratchpad, int thread)
{
    const struct onednn_functions *call = &onednn->call;
    const struct shape *shape = panel + 1 < weight->panels ? weight->whole : weight->last;
    int count = 0;
    while (row_counts[count] < rows)
        count++;
    const struct primitive *primitive = &shape->primitives[count];
    const struct thread_memory *own = &primitive->of_threads[thread];
    dnnl_stream_t stream = onednn->streams[thread];
    void *source;
    memcpy(&source, &x, sizeof source); /* oneDNN only reads x, so removing `const` is safe */
    place_memory(call, own->x, source, stream);
    place_memory(call, own->y, y, stream);
    place_memory(call, own->scratchpad, scratchpad, stream);
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, own->x},
        {DNNL_ARG_WEIGHTS, weight->memories[panel]},
        {DNNL_ARG_DST, own->y},
        {DNNL_ARG_SCRATCHPAD, own->scratchpad},
    };
    return call->dnnl_primitive_execute(primitive->primitive, stream, 4, arguments) == dnnl_success ? 0 : -1;
}

#else /* without headers of a supported version, oneDNN is not used */

int onednn_open(int threads, bool bf16, struct onednn **onednn, struct error *error)
{
    (void)threads, (void)bf16, (void)onednn;
    return error_set(error,
                     "this build does not include oneDNN: its headers (version 2 or 3) were missing at build time");
}

void onednn_close(struct onednn *onednn)
{
    (void)onednn;
}

const char *onednn_description(const struct onednn *onednn)
{
    (void)onednn;
    return "";
}

int onednn_pack(struct onednn *onednn, int64_t columns, int64_t depth, const float *w, struct onednn_weight **weight,
                struct error *error)
{
    (void)onednn, (void)columns, (void)depth, (void)w, (void)weight;
    return error_set(error, "this build does not include oneDNN");
}

void onednn_free_weight(struct onednn *onednn, struct onednn_weight *weight)
{
    (void)onednn, (void)weight;
}

size_t onednn_weight_bytes(const struct onednn_weight *weight)
{
    (void)weight;
    return 0;
}

int onednn_tile(const struct onednn *onednn, const struct onednn_weight *weight, int64_t panel, int64_t rows,
                const void *x, float *y, void *scratchpad, int thread)
{
    (void)onednn, (void)weight, (void)panel, (void)rows, (void)x, (void)y, (void)scratchpad, (void)thread;
    return -1;
}

#endif
