/* The index of a checkpoint that consists of several files: model.safetensors.index.json. Its content is {"metadata":
 * {…}, "weight_map": {tensor: file, …}}. The files are in the folder of the index. huggingface_hub stores a tensor with
 * several names once. It writes the other names to the metadata: {other name: stored name}. Private to weights/. */
#ifndef WEIGHTS_SHARD_INDEX_H
#define WEIGHTS_SHARD_INDEX_H

#include "config/config.h"

#include <jansson.h>

struct shard_index {
    json_t *json;
    const json_t *weight_map; /* values are strings. `json` owns them and all names */
    json_t *aliases; /* other names of tensors, and the names that they stand for. The metadata may also contain other
                        strings, so a value need not be the name of a tensor. The struct owns the object */
    const char **files; /* (n_files) different names, sorted by strcmp. All files are in the folder of the index */
    size_t n_files;     /* at least 1, at most SHARD_INDEX_FILES */
};

#define SHARD_INDEX_FILES 1000

/* Does no I/O. The error does not name the file. After success, the caller must call shard_index_free. */
int shard_index_parse(const char *text, size_t length, struct shard_index *index, struct error *error);
void shard_index_free(struct shard_index *index);

#endif
