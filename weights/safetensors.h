/* The safetensors format. A file begins with the length N of the header, in 8 bytes, little-endian. N bytes of JSON
 * follow, and then the data. The JSON is an object. Each member is a tensor {"dtype", "shape", "data_offsets": [begin,
 * end]}, except __metadata__. Offsets count from the start of the data. The tensors cover the data without gap or
 * overlap. */
#ifndef WEIGHTS_SAFETENSORS_H
#define WEIGHTS_SAFETENSORS_H

#include "config/config.h"
#include "weights/tensor.h"

#include <jansson.h>

/* A name of a tensor: the name in the header, or an alias in __metadata__. */
struct safetensors_name {
    const char *name;
    size_t tensor; /* index of the tensor */
};

/* The tensors of a file. After safetensors_parse succeeded, the caller must call safetensors_free. */
struct safetensors {
    json_t *header; /* owns the strings of names and metadata */
    struct weights_tensor *tensors;
    size_t n_tensors; /* number of tensors, which are in the order of their data */
    struct safetensors_name *names;
    size_t n_names; /* number of names, which are sorted by strcmp */
};

#define SAFETENSORS_LENGTH_BYTES 8

/* Reads the length of the header from `bytes`, the first SAFETENSORS_LENGTH_BYTES bytes of a file of `size` bytes, or
 * the whole file if it is shorter. Checks that the header fits in the file. This function and the next ones do no I/O.
 * Their errors do not name the file. */
int safetensors_header(const void *bytes, size_t size, size_t *header_size, struct error *error);

/* Parses the header (header_size bytes of JSON) and checks it against the size of the data. The data itself is not
 * needed yet. safetensors_place sets the addresses of the tensors later. */
int safetensors_parse(const char *header, size_t header_size, size_t data_size, struct safetensors *table,
                      struct error *error);
void safetensors_place(struct safetensors *table, const void *data);
void safetensors_free(struct safetensors *table);

/* NULL if no tensor has the name. */
const struct weights_tensor *safetensors_find(const struct safetensors *table, const char *name);

#endif
