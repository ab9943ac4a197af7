/* A checkpoint in several files: model.safetensors.index.json is {"metadata": …, "weight_map": {tensor: file, …}}, its
 * files lie beside it. Private to weights/. */
#ifndef WEIGHTS_SHARD_INDEX_H
#define WEIGHTS_SHARD_INDEX_H

#include "config/config.h"

#include <jansson.h>

struct shard_index {
    json_t *json;
    const json_t *weight_map; /* of strings; in `json`, as all names are */
    const char **files;       /* (n_files) each once, in the order of strcmp; none leads to another folder */
    size_t n_files;           /* at least 1 */
};

/* No I/O. The error does not name the file. On success shard_index_free is owed. */
int shard_index_parse(const char *text, size_t length, struct shard_index *index, struct error *error);
void shard_index_free(struct shard_index *index);

#endif
