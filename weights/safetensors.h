/* The safetensors format: the length N of the header in 8 bytes, little-endian; N bytes of a JSON object; the data.
 * Every member of the object but __metadata__ is a tensor {"dtype", "shape", "data_offsets": [begin, end]}, its offsets
 * counted from the start of the data. The tensors cover the data without hole or overlap. */
#ifndef WEIGHTS_SAFETENSORS_H
#define WEIGHTS_SAFETENSORS_H

#include "weights/weights.h"

#include <jansson.h>

/* A name under which a tensor is found: its own, or an alias of __metadata__. */
struct safetensors_name {
    const char *name;
    size_t tensor; /* index */
};

/* What a file holds; data pointers go into its bytes. safetensors_parse succeeded: safetensors_free is owed. */
struct safetensors {
    json_t *header; /* owns names and metadata */
    struct weights_tensor *tensors;
    size_t n_tensors; /* in the order of their data */
    struct safetensors_name *names;
    size_t n_names; /* sorted by strcmp */
};

/* No I/O. The error does not name the file. */
int safetensors_parse(const void *bytes, size_t size, struct safetensors *table, struct error *error);
void safetensors_free(struct safetensors *table);

/* NULL: there is none. */
const struct weights_tensor *safetensors_find(const struct safetensors *table, const char *name);

#endif
