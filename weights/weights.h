/* weights: tensors by name from a safetensors file (or from the binary itself, for the built-in model).
 * Names, dtypes and shapes are as the file has them; nothing is converted until it is asked for. */
#ifndef WEIGHTS_WEIGHTS_H
#define WEIGHTS_WEIGHTS_H

#include "config/config.h"

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

/* One tensor; all of it borrowed from its `struct weights`. */
struct weights_tensor {
    const char *name;
    enum weights_dtype dtype;
    int rank;                        /* 0: a scalar */
    int64_t shape[WEIGHTS_MAX_RANK]; /* each >= 0; row-major */
    int64_t elements;                /* their product */
    const void *data;                /* not aligned to more than one byte */
    size_t bytes;
    size_t offset; /* of data in the file, behind its header */
};

/* An open file. Constant after opening, so any thread may read it.
 * weights_open succeeded: weights_close is owed; it failed: nothing is. */
struct weights;

/* A file of which the path ends in .index.json is an index, as of model.safetensors.index.json: the tensors are those
 * of the files that it names, which lie beside it. All of them are read like any other.
 *
 * Reads the header and checks every offset, shape and product in it against the file's size; then reads the rest. So a
 * large file with a wrong header is refused at once. The file is read, not mapped: a mapped file that somebody cuts or
 * copies over raises SIGBUS, and the daemon would end without a word. Until weights_close() this costs the file's size
 * in memory. */
int weights_open(const char *path, struct weights **weights, struct error *error);

/* The same over memory, which must outlive it. `origin` names it in messages. No I/O: this is what is fuzzed. */
int weights_open_memory(const void *bytes, size_t size, const char *origin, struct weights **weights,
                        struct error *error);
void weights_close(struct weights *weights); /* NULL is harmless */

const char *weights_origin(const struct weights *weights);
size_t weights_count(const struct weights *weights); /* stored tensors; aliases don't count */
const struct weights_tensor *weights_at(const struct weights *weights, size_t index);

/* The tensor of that name, or the one that `__metadata__` maps the name to. NULL: there is none. */
const struct weights_tensor *weights_find(const struct weights *weights, const char *name);

/* Its place in weights_at()'s order. */
size_t weights_index(const struct weights *weights, const struct weights_tensor *tensor);

const char *weights_dtype_name(enum weights_dtype dtype); /* "F32" */
size_t weights_dtype_size(enum weights_dtype dtype);      /* bytes */

/* Converts all elements to float32 (round to nearest even from F64). F64, F32, F16 and BF16 only: false for others. */
bool weights_to_f32(const struct weights_tensor *tensor, float *out);

/* "[2, 32]" into buffer, for messages. Returns buffer. */
const char *weights_shape_text(int rank, const int64_t *shape, char *buffer, size_t size);

/* The model that is inside the binary: config.json's text and the bytes of its model.safetensors. */
struct weights_builtin {
    const char *config;
    size_t config_length;
    const void *model;
    size_t model_size;
};
struct weights_builtin weights_builtin(void);

#endif
