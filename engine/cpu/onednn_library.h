/* onednn_library: the part of oneDNN's C interface that products_onednn.c uses. The version of oneDNN is that of the
 * headers with which the daemon was built, 2 or 3. The functions are looked up by name when the daemon starts, so the
 * binary runs without the library. If there are no headers, or headers of another version, ONEDNN_LIBRARY is not
 * defined. */
#ifndef ENGINE_CPU_ONEDNN_LIBRARY_H
#define ENGINE_CPU_ONEDNN_LIBRARY_H

#if defined __has_include
#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#endif
#endif

/* Names of the shared object. Error messages contain the first name, which oneDNN itself uses. Debian 13 uses another
 * name. */
#if defined DNNL_VERSION_MAJOR && DNNL_VERSION_MAJOR == 2
#define ONEDNN_LIBRARY "libdnnl.so.2"
#define ONEDNN_LIBRARIES ONEDNN_LIBRARY
#elif defined DNNL_VERSION_MAJOR && DNNL_VERSION_MAJOR == 3
#define ONEDNN_LIBRARY "libdnnl.so.3"
#define ONEDNN_LIBRARIES ONEDNN_LIBRARY, "libdnnl.so.3.6"
#endif

#ifdef ONEDNN_LIBRARY

#if DNNL_VERSION_MAJOR == 2
#define ONEDNN_VERSIONED_FUNCTIONS(X)   \
    X(dnnl_memory_desc_init_by_strides) \
    X(dnnl_memory_desc_init_by_tag)     \
    X(dnnl_memory_set_data_handle_v2)   \
    X(dnnl_matmul_desc_init)            \
    X(dnnl_primitive_desc_create)
#else
#define ONEDNN_VERSIONED_FUNCTIONS(X)       \
    X(dnnl_memory_desc_create_with_strides) \
    X(dnnl_memory_desc_create_with_tag)     \
    X(dnnl_memory_desc_clone)               \
    X(dnnl_memory_desc_destroy)             \
    X(dnnl_memory_set_data_handle)          \
    X(dnnl_matmul_primitive_desc_create)
#endif

#define ONEDNN_FUNCTIONS(X)                    \
    ONEDNN_VERSIONED_FUNCTIONS(X)              \
    X(dnnl_version)                            \
    X(dnnl_engine_create)                      \
    X(dnnl_engine_destroy)                     \
    X(dnnl_stream_create)                      \
    X(dnnl_stream_destroy)                     \
    X(dnnl_memory_desc_get_size)               \
    X(dnnl_memory_create)                      \
    X(dnnl_memory_destroy)                     \
    X(dnnl_primitive_attr_create)              \
    X(dnnl_primitive_attr_destroy)             \
    X(dnnl_primitive_attr_set_scratchpad_mode) \
    X(dnnl_primitive_desc_destroy)             \
    X(dnnl_primitive_desc_query_md)            \
    X(dnnl_primitive_create)                   \
    X(dnnl_primitive_destroy)                  \
    X(dnnl_primitive_execute)                  \
    X(dnnl_reorder_primitive_desc_create)

struct onednn_functions {
#define ONEDNN_POINTER(name) __typeof__(&(name)) name;
    ONEDNN_FUNCTIONS(ONEDNN_POINTER)
#undef ONEDNN_POINTER
};

/* Describes how a matrix lies in memory. Version 2 of oneDNN stores the description by value. Version 3 allocates it,
 * so each description must be released by forget_matrix. forget_matrix does nothing for a zeroed struct. The functions
 * on matrices return a dnnl_status_t, except borrow_matrix, forget_matrix and matrix_bytes. */
struct matrix {
    dnnl_memory_desc_t desc;
};

#if DNNL_VERSION_MAJOR == 2

typedef const dnnl_memory_desc_t *borrowed_matrix;

static inline borrowed_matrix borrow_matrix(const struct matrix *matrix)
{
    return &matrix->desc;
}

static inline int describe_matrix(const struct onednn_functions *call, struct matrix *matrix, const dnnl_dims_t sizes,
                                  dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return call->dnnl_memory_desc_init_by_tag(&matrix->desc, 2, sizes, type, tag);
}

static inline int describe_strides(const struct onednn_functions *call, struct matrix *matrix, const dnnl_dims_t sizes,
                                   dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return call->dnnl_memory_desc_init_by_strides(&matrix->desc, 2, sizes, type, strides);
}

static inline void forget_matrix(const struct onednn_functions *call, struct matrix *matrix)
{
    (void)call, (void)matrix;
}

/* Replaces the matrix's description by the description that the primitive chose. */
static inline int ask_matrix(const struct onednn_functions *call, const_dnnl_primitive_desc_t primitive,
                             dnnl_query_t what, struct matrix *matrix)
{
    matrix->desc = *call->dnnl_primitive_desc_query_md(primitive, what, 0);
    return 0;
}

static inline int describe_matmul(const struct onednn_functions *call, dnnl_primitive_desc_t *primitive,
                                  dnnl_engine_t engine, const struct matrix *x, const struct matrix *w,
                                  const struct matrix *y, const_dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t matmul;
    int status = call->dnnl_matmul_desc_init(&matmul, &x->desc, &w->desc, NULL, &y->desc);
    if (status == 0)
        status = call->dnnl_primitive_desc_create(primitive, &matmul, attributes, engine, NULL);
    return status;
}

static inline int place_memory(const struct onednn_functions *call, dnnl_memory_t memory, void *data,
                               dnnl_stream_t stream)
{
    return call->dnnl_memory_set_data_handle_v2(memory, data, stream);
}

#else

typedef const_dnnl_memory_desc_t borrowed_matrix;

static inline borrowed_matrix borrow_matrix(const struct matrix *matrix)
{
    return matrix->desc;
}

static inline int describe_matrix(const struct onednn_functions *call, struct matrix *matrix, const dnnl_dims_t sizes,
                                  dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return call->dnnl_memory_desc_create_with_tag(&matrix->desc, 2, sizes, type, tag);
}

static inline int describe_strides(const struct onednn_functions *call, struct matrix *matrix, const dnnl_dims_t sizes,
                                   dnnl_data_type_t type, const dnnl_dims_t strides)
{
    return call->dnnl_memory_desc_create_with_strides(&matrix->desc, 2, sizes, type, strides);
}

static inline void forget_matrix(const struct onednn_functions *call, struct matrix *matrix)
{
    if (matrix->desc)
        call->dnnl_memory_desc_destroy(matrix->desc);
    matrix->desc = NULL;
}

/* Replaces the matrix's description by the description that the primitive chose. */
static inline int ask_matrix(const struct onednn_functions *call, const_dnnl_primitive_desc_t primitive,
                             dnnl_query_t what, struct matrix *matrix)
{
    forget_matrix(call, matrix);
    return call->dnnl_memory_desc_clone(&matrix->desc, call->dnnl_primitive_desc_query_md(primitive, what, 0));
}

static inline int describe_matmul(const struct onednn_functions *call, dnnl_primitive_desc_t *primitive,
                                  dnnl_engine_t engine, const struct matrix *x, const struct matrix *w,
                                  const struct matrix *y, const_dnnl_primitive_attr_t attributes)
{
    return call->dnnl_matmul_primitive_desc_create(primitive, engine, x->desc, w->desc, NULL, y->desc, attributes);
}

static inline int place_memory(const struct onednn_functions *call, dnnl_memory_t memory, void *data,
                               dnnl_stream_t stream)
{
    (void)stream;
    return call->dnnl_memory_set_data_handle(memory, data);
}

#endif

static inline size_t matrix_bytes(const struct onednn_functions *call, const struct matrix *matrix)
{
    return call->dnnl_memory_desc_get_size(borrow_matrix(matrix));
}

static inline int create_memory(const struct onednn_functions *call, dnnl_memory_t *memory, const struct matrix *matrix,
                                dnnl_engine_t engine, void *data)
{
    return call->dnnl_memory_create(memory, borrow_matrix(matrix), engine, data);
}

#endif
#endif
