/* tensor: one tensor of a file, the type of its elements, and the conversion of elements to float32. */
#ifndef WEIGHTS_TENSOR_H
#define WEIGHTS_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIGHTS_MAX_RANK 8

enum weights_dtype {
    WEIGHTS_F64,
    WEIGHTS_F32,
    WEIGHTS_F16,
    WEIGHTS_BF16,
    WEIGHTS_I64,
    WEIGHTS_I32,
    WEIGHTS_I16,
    WEIGHTS_I8,
    WEIGHTS_U64,
    WEIGHTS_U32,
    WEIGHTS_U16,
    WEIGHTS_U8,
    WEIGHTS_BOOL,
    WEIGHTS_DTYPE_COUNT
};

/* One tensor. Its `struct weights` owns the name and the data. */
struct weights_tensor {
    const char *name;
    enum weights_dtype dtype;
    int rank;                        /* 0 for a scalar */
    int64_t shape[WEIGHTS_MAX_RANK]; /* each >= 0. The elements are row-major */
    int64_t elements;                /* the product of the sizes */
    const void *data;                /* not aligned. NULL if the data was not read yet */
    size_t bytes;
    size_t offset; /* bytes from the end of the header to the data */
};

const char *weights_dtype_name(enum weights_dtype dtype); /* "F32" */
size_t weights_dtype_size(enum weights_dtype dtype);      /* bytes of one element */

/* Whether the type is F64, F32, F16 or BF16. */
bool weights_dtype_is_float(enum weights_dtype dtype);

/* Converts all elements to float32. F64 elements and integers beyond 2^24 are rounded to the nearest float, ties to
 * even. A boolean becomes 0 or 1. The data must have been read. */
void weights_to_f32(const struct weights_tensor *tensor, float *out);

/* Writes "[2, 32]" into buffer, for messages. Returns buffer. */
const char *weights_shape_text(int rank, const int64_t *shape, char *buffer, size_t size);

#endif
