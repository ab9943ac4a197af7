/* tensor: one tensor of a file, its type of elements, and their conversion to float32. */
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
    int rank;                        /* 0: a scalar */
    int64_t shape[WEIGHTS_MAX_RANK]; /* each >= 0; row-major */
    int64_t elements;                /* their product */
    const void *data;                /* at any address, without alignment; NULL: not read yet */
    size_t bytes;
    size_t offset; /* of the data, from the end of the header */
};

const char *weights_dtype_name(enum weights_dtype dtype); /* "F32" */
size_t weights_dtype_size(enum weights_dtype dtype);      /* bytes */

/* F64, F32, F16 and BF16. */
bool weights_dtype_is_float(enum weights_dtype dtype);

/* Converts all elements to float32. F64 rounds to nearest even, and so do integers beyond 2^24. A boolean is 0 or 1.
 * The data must have been read. */
void weights_to_f32(const struct weights_tensor *tensor, float *out);

/* Writes "[2, 32]" into buffer, for messages. Returns buffer. */
const char *weights_shape_text(int rank, const int64_t *shape, char *buffer, size_t size);

#endif
