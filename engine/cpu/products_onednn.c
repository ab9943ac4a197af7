#include "engine/cpu/products_onednn.h"

#if defined __has_include
#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#endif
#endif

#if defined DNNL_VERSION_MAJOR && DNNL_VERSION_MAJOR == 2

#include <dlfcn.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libdnnl.so.2"
#define ALIGNMENT 64 /* bytes */

/* The row counts that primitives are made for. Measured: their kernels give a row the same bits at each of them
 * (tests/unit/test_products.c holds them to it). */
static const int64_t row_counts[] = {16, 32, PLAN_ROW_BLOCK};
enum { ROW_COUNTS = sizeof row_counts / sizeof *row_counts };

/* What is used of the library, found by name: the binary runs where it is not. */
#define FUNCTIONS(X)                           \
    X(dnnl_version)                            \
    X(dnnl_engine_create)                      \
    X(dnnl_engine_destroy)                     \
    X(dnnl_stream_create)                      \
    X(dnnl_stream_destroy)                     \
    X(dnnl_memory_desc_init_by_strides)        \
    X(dnnl_memory_desc_init_by_tag)            \
    X(dnnl_memory_desc_get_size)               \
    X(dnnl_memory_create)                      \
    X(dnnl_memory_destroy)                     \
    X(dnnl_memory_set_data_handle_v2)          \
    X(dnnl_matmul_desc_init)                   \
    X(dnnl_primitive_attr_create)              \
    X(dnnl_primitive_attr_destroy)             \
    X(dnnl_primitive_attr_set_scratchpad_mode) \
    X(dnnl_primitive_desc_create)              \
    X(dnnl_primitive_desc_destroy)             \
    X(dnnl_primitive_desc_query_md)            \
    X(dnnl_primitive_create)                   \
    X(dnnl_primitive_destroy)                  \
    X(dnnl_primitive_execute)                  \
    X(dnnl_reorder_primitive_desc_create)

struct functions {
#define POINTER(name) __typeof__(&(name)) name;
    FUNCTIONS(POINTER)
#undef POINTER
};

/* A primitive with what a thread hands it. The memory objects are the thread's own: their addresses change. */
struct lane {
    dnnl_memory_t x, y, scratchpad;
};

struct primitive {
    dnnl_primitive_t primitive;
    struct lane *lanes; /* one a thread */
};

/* All panels of one width and depth run the same primitives, and keep them. */
struct shape {
    int64_t depth, width;
    int64_t users;
    dnnl_memory_desc_t packed;
    struct primitive primitives[ROW_COUNTS];
    struct shape *next;
};

struct onednn {
    void *library;
    struct functions call;
    dnnl_engine_t engine;
    dnnl_stream_t *streams; /* one a thread */
    int threads;
    bool bf16;
    struct shape *shapes;
    char description[48];
};

struct onednn_weight {
    int64_t panels;
    size_t bytes;
    char *data;                 /* the panels, one behind the other */
    struct shape *whole, *last; /* of the panels, and of the last one; NULL: not found yet */
    dnnl_memory_t memories[];   /* one a panel */
};

static const char *const failure = "oneDNN: %s failed with status %d";

/* ---- The library ---- */

static int find_functions(struct onednn *onednn, struct error *error)
{
#define FIND(name)                                            \
    {                                                         \
        void *symbol = dlsym(onednn->library, #name);         \
        if (!symbol)                                          \
            return error_set(error, LIBRARY " lacks " #name); \
        memcpy(&onednn->call.name, &symbol, sizeof symbol);   \
    }
    FUNCTIONS(FIND)
#undef FIND
    return 0;
}

static int create_streams(struct onednn *onednn, struct error *error)
{
    onednn->streams = calloc((size_t)onednn->threads, sizeof *onednn->streams);
    if (!onednn->streams)
        return error_set(error, "out of memory while opening oneDNN");
    int status = onednn->call.dnnl_engine_create(&onednn->engine, dnnl_cpu, 0);
    for (int i = 0; i < onednn->threads && status == 0; i++)
        status = onednn->call.dnnl_stream_create(&onednn->streams[i], onednn->engine, dnnl_stream_default_flags);
    return status ? error_set(error, failure, "an engine", status) : 0;
}

int onednn_open(int threads, bool bf16, struct onednn **opened, struct error *error)
{
    struct onednn *onednn = calloc(1, sizeof *onednn);
    if (!onednn)
        return error_set(error, "out of memory while opening oneDNN");
    onednn->threads = threads;
    onednn->bf16 = bf16;
    onednn->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!onednn->library) {
        error_set(error, "oneDNN cannot be loaded: %s", dlerror());
        free(onednn);
        return -1;
    }
    if (find_functions(onednn, error) != 0 || create_streams(onednn, error) != 0) {
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
    for (int i = 0; primitive->lanes && i < onednn->threads; i++) {
        const dnnl_memory_t memories[] = {primitive->lanes[i].x, primitive->lanes[i].y, primitive->lanes[i].scratchpad};
        for (size_t m = 0; m < sizeof memories / sizeof *memories; m++)
            if (memories[m])
                onednn->call.dnnl_memory_destroy(memories[m]);
    }
    free(primitive->lanes);
    if (primitive->primitive)
        onednn->call.dnnl_primitive_destroy(primitive->primitive);
}

static void free_shape(struct onednn *onednn, struct shape *shape)
{
    for (int i = 0; i < ROW_COUNTS; i++)
        destroy_primitive(onednn, &shape->primitives[i]);
    free(shape);
}

void onednn_close(struct onednn *onednn)
{
    if (!onednn)
        return;
    for (int i = 0; onednn->streams && i < onednn->threads; i++)
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

static int create_lanes(const struct onednn *onednn, struct primitive *primitive, const dnnl_memory_desc_t *x,
                        const dnnl_memory_desc_t *y, const dnnl_memory_desc_t *scratchpad)
{
    int status = 0;
    primitive->lanes = calloc((size_t)onednn->threads, sizeof *primitive->lanes);
    if (!primitive->lanes)
        return dnnl_out_of_memory;
    for (int i = 0; i < onednn->threads && status == 0; i++) {
        struct lane *lane = &primitive->lanes[i];
        status = onednn->call.dnnl_memory_create(&lane->x, x, onednn->engine, DNNL_MEMORY_NONE);
        if (status == 0)
            status = onednn->call.dnnl_memory_create(&lane->y, y, onednn->engine, DNNL_MEMORY_NONE);
        if (status == 0)
            status = onednn->call.dnnl_memory_create(&lane->scratchpad, scratchpad, onednn->engine, DNNL_MEMORY_NONE);
    }
    return status;
}

/* y (rows, width) = x (rows, depth) w (depth, width); `packed` says how w lies, and is the library's choice where its
 * format kind is "any". */
static int create_primitive(const struct onednn *onednn, int64_t rows, struct shape *shape, struct primitive *primitive)
{
    const struct functions *call = &onednn->call;
    dnnl_dims_t x_sizes = {rows, shape->depth}, y_sizes = {rows, shape->width};
    dnnl_memory_desc_t x, y;
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_attr_t attributes;
    dnnl_primitive_desc_t description;
    int status = call->dnnl_memory_desc_init_by_tag(&x, 2, x_sizes, onednn->bf16 ? dnnl_bf16 : dnnl_f32, dnnl_ab);
    if (status == 0)
        status = call->dnnl_memory_desc_init_by_tag(&y, 2, y_sizes, dnnl_f32, dnnl_ab);
    if (status == 0)
        status = call->dnnl_matmul_desc_init(&matmul, &x, &shape->packed, NULL, &y);
    if (status == 0)
        status = call->dnnl_primitive_attr_create(&attributes);
    if (status != 0)
        return status;
    status = call->dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status == 0)
        status = call->dnnl_primitive_desc_create(&description, &matmul, attributes, onednn->engine, NULL);
    call->dnnl_primitive_attr_destroy(attributes);
    if (status != 0)
        return status;
    const dnnl_memory_desc_t *scratchpad = call->dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    shape->packed = *call->dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
    if (call->dnnl_memory_desc_get_size(scratchpad) > ONEDNN_SCRATCHPAD_BYTES)
        status = dnnl_unimplemented;
    if (status == 0)
        status = call->dnnl_primitive_create(&primitive->primitive, description);
    if (status == 0)
        status = create_lanes(onednn, primitive, &x, &y, scratchpad);
    call->dnnl_primitive_desc_destroy(description);
    return status;
}

/* drop_shape is owed. NULL: `status` says why. */
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
    *status = onednn->call.dnnl_memory_desc_init_by_tag(&shape->packed, 2, sizes, onednn->bf16 ? dnnl_bf16 : dnnl_f32,
                                                        dnnl_format_tag_any);
    for (int i = ROW_COUNTS - 1; i >= 0 && *status == 0; i--) /* the most rows choose how the weight lies */
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
    size_t bytes = onednn->call.dnnl_memory_desc_get_size(&shape->packed);
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* w (width, depth) into the panel's place. */
static int pack_panel(const struct onednn *onednn, const struct shape *shape, const float *w, dnnl_memory_t panel)
{
    const struct functions *call = &onednn->call;
    dnnl_dims_t sizes = {shape->depth, shape->width}, strides = {1, shape->depth};
    dnnl_memory_desc_t from;
    dnnl_memory_t memory;
    dnnl_primitive_desc_t description;
    dnnl_primitive_t reorder;
    void *address;
    memcpy(&address, &w, sizeof address); /* it is only read */
    int status = call->dnnl_memory_desc_init_by_strides(&from, 2, sizes, dnnl_f32, strides);
    if (status == 0)
        status = call->dnnl_memory_create(&memory, &from, onednn->engine, address);
    if (status != 0)
        return status;
    status = call->dnnl_reorder_primitive_desc_create(&description, &from, onednn->engine, &shape->packed,
                                                      onednn->engine, NULL);
    if (status == 0) {
        status = call->dnnl_primitive_create(&reorder, description);
        call->dnnl_primitive_desc_destroy(description);
    }
    if (status == 0) {
        const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, memory}, {DNNL_ARG_TO, panel}};
        status = call->dnnl_primitive_execute(reorder, onednn->streams[0], 2, arguments);
        call->dnnl_primitive_destroy(reorder);
    }
    call->dnnl_memory_destroy(memory);
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
        status = onednn->call.dnnl_memory_create(&weight->memories[p], &shape->packed, onednn->engine,
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
    omp_set_num_threads(1); /* primitives are made for one thread, as they run */
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
    const struct functions *call = &onednn->call;
    const struct shape *shape = panel + 1 < weight->panels ? weight->whole : weight->last;
    int count = 0;
    while (row_counts[count] < rows)
        count++;
    const struct primitive *primitive = &shape->primitives[count];
    const struct lane *lane = &primitive->lanes[thread];
    dnnl_stream_t stream = onednn->streams[thread];
    void *source;
    memcpy(&source, &x, sizeof source); /* it is only read */
    call->dnnl_memory_set_data_handle_v2(lane->x, source, stream);
    call->dnnl_memory_set_data_handle_v2(lane->y, y, stream);
    call->dnnl_memory_set_data_handle_v2(lane->scratchpad, scratchpad, stream);
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, lane->x},
        {DNNL_ARG_WEIGHTS, weight->memories[panel]},
        {DNNL_ARG_DST, lane->y},
        {DNNL_ARG_SCRATCHPAD, lane->scratchpad},
    };
    return call->dnnl_primitive_execute(primitive->primitive, stream, 4, arguments) == dnnl_success ? 0 : -1;
}

#else /* without the headers, or with those of another major version, OpenBLAS computes all products */

int onednn_open(int threads, bool bf16, struct onednn **onednn, struct error *error)
{
    (void)threads, (void)bf16, (void)onednn;
    return error_set(error, "this build has no oneDNN: its headers (version 2) were not there");
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
    return error_set(error, "this build has no oneDNN");
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
