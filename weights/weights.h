/* weights: tensors by name, from safetensors files, from files of torch.save, or from memory. The built-in models are
 * in memory, as a part of the binary. Names, dtypes and shapes are those of the file. tensor.h describes a tensor. */
#ifndef WEIGHTS_WEIGHTS_H
#define WEIGHTS_WEIGHTS_H

#include "config/config.h"
#include "weights/tensor.h"

#include <stddef.h>

/* One or several open files. After weights_open or weights_open_memory succeeded, the caller must call weights_close.
 * Any thread may use the struct while weights_read and weights_close do not run. */
struct weights;

/* Opens a safetensors file. If the path ends in .pt, .pth or .bin, opens an archive of torch.save. If the path ends in
 * .index.json, opens an index and the files that it lists. They are in the folder of the index.
 *
 * Reads only the headers, and checks each tensor in them. The sizes of its shape must not be negative. The number of
 * bytes that follows from shape and dtype must not overflow, and must be the number that the offsets state. The data
 * must lie within the file, without overlaps or gaps. The data of the tensors is NULL until weights_read. So the caller
 * can compare names and shapes with a model first, and refuse a large wrong file at once. The files stay open until
 * weights_read. So header and data come from the same file, even if the file's name is given to another file meanwhile.
 */
int weights_open(const char *path, struct weights **weights, struct error *error);

/* Like weights_open, for the bytes of a file in memory. They must outlive the result. `origin` names the file in
 * messages. The tensors have their data at once. The function does no I/O, so the fuzzer can call it. */
int weights_open_memory(const void *bytes, size_t size, const char *origin, struct weights **weights,
                        struct error *error);

/* Reads the data into memory, where it stays until weights_close, and closes the files. Does nothing if the data was
 * read before. A file that shrank since weights_open is an error. The files are not mapped into memory, because SIGBUS
 * would end the daemon if someone truncated a mapped file. After a failure, only weights_close may follow. */
int weights_read(struct weights *weights, struct error *error);
void weights_close(struct weights *weights); /* NULL does nothing */

const char *weights_origin(const struct weights *weights);
size_t weights_count(const struct weights *weights); /* number of stored tensors, not counting aliases */
const struct weights_tensor *weights_at(const struct weights *weights, size_t index);

/* The tensor with this name or alias. NULL if there is none. An alias is a second name of a stored tensor, for layers
 * that share weights. In a safetensors file, `__metadata__` maps the alias to the name of the tensor. */
const struct weights_tensor *weights_find(const struct weights *weights, const char *name);

/* The index of a tensor, for weights_at(). */
size_t weights_index(const struct weights *weights, const struct weights_tensor *tensor);

/* A model inside the binary: the text of its config.json, the bytes of its model.safetensors, and the text of its
 * tokenizer.json. `tokenizer` is NULL if the model has no such file. */
struct weights_builtin {
    const char *config;
    size_t config_length;
    const void *model;
    size_t model_size;
    const char *tokenizer;
    size_t tokenizer_length;
};

enum weights_builtin_index {
    WEIGHTS_BUILTIN,        /* weights/builtin: computes embeddings, and fills in masked tokens of a text */
    WEIGHTS_BUILTIN_WRITER, /* weights/writer: causal, continues a text */
    WEIGHTS_N_BUILTIN
};
struct weights_builtin weights_builtin(enum weights_builtin_index index);

#endif
