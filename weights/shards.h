/* A checkpoint in several files: model.safetensors.index.json is {"metadata": …, "weight_map": {tensor: file, …}}, its
 * files lie beside it. Private to weights/. */
#ifndef WEIGHTS_SHARDS_H
#define WEIGHTS_SHARDS_H

#include "config/config.h"

#include <jansson.h>

struct shards {
    json_t *index;
    const json_t *weight_map; /* of strings; in `index`, as all names are */
    const char **files;       /* (n_files) each once, in the order of strcmp; none leads to another folder */
    size_t n_files;           /* at least 1 */
};

/* No I/O. The error does not name the file. On success shards_free is owed. */
int shards_parse(const char *text, size_t length, struct shards *shards, struct error *error);
void shards_free(struct shards *shards);

#endif
