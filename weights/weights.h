/* weights: tensors by name, from safetensors files or from memory (the built-in model is inside the binary). Names,
 * dtypes and shapes are those of the file. tensor.h describes a tensor. */
#ifndef WEIGHTS_WEIGHTS_H
#define WEIGHTS_WEIGHTS_H

#include "config/config.h"
#include "weights/tensor.h"

#include <stddef.h>

/* An open file, or several. After weights_open or weights_open_memory succeeded, the caller must call weights_close.
 * Any thread may read it while weights_read and weights_close do not run. */
struct weights;

/* Opens a safetensors file, or an index of several if the path ends in .index.json. The files of an index are in its
 * folder.
 *
 * Only the headers are read: every offset, shape and product in them is checked against the file's size. The tensors'
 * data is NULL until weights_read. So the caller compares names and shapes with a model first, and a large file that
 * does not fit is refused at once. The files stay open until weights_read. So header and data come from one file, even
 * if another file has its name by then. */
int weights_open(const char *path, struct weights **weights, struct error *error);

/* The same for a file in memory, which must outlive the result. `origin` names it in messages. The data is there at
 * once. No I/O, so the fuzzer calls this one. */
int weights_open_memory(const void *bytes, size_t size, const char *origin, struct weights **weights,
                        struct error *error);

/* Reads the data into memory, until weights_close, and closes the files. Does nothing if the data is there. A file that
 * was cut since weights_open is an error. The data is not mapped: if someone truncates or overwrites a mapped file,
 * SIGBUS ends the daemon. After a failure, only weights_close may follow. */
int weights_read(struct weights *weights, struct error *error);
void weights_close(struct weights *weights); /* NULL does nothing */

const char *weights_origin(const struct weights *weights);
size_t weights_count(const struct weights *weights); /* stored tensors, without aliases */
const struct weights_tensor *weights_at(const struct weights *weights, size_t index);

/* The tensor with that name, or with that alias in `__metadata__`. NULL: none has it. */
const struct weights_tensor *weights_find(const struct weights *weights, const char *name);

/* Its index for weights_at(). */
size_t weights_index(const struct weights *weights, const struct weights_tensor *tensor);

/* The model inside the binary: the text of its config.json and the bytes of its model.safetensors. */
struct weights_builtin {
    const char *config;
    size_t config_length;
    const void *model;
    size_t model_size;
};
struct weights_builtin weights_builtin(void);

#endif
