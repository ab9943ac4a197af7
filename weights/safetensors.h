/* The safetensors format. A file begins with the length N of the header, in 8 bytes, little-endian. N bytes of JSON
 * follow, and then the data. The JSON is an object. Each member is a tensor {"dtype", "shape", "data_offsets": [begin,
 * end]}, except __metadata__. Offsets count from the start of the data. The tensors cover the data without gap or
 * overlap. */
#ifndef WEIGHTS_SAFETENSORS_H
#define WEIGHTS_SAFETENSORS_H

#include "config/config.h"
#include "weights/tensor_table.h"

#include <jansson.h>

/* A file. After safetensors_parse succeeded, the caller must call safetensors_free. */
struct safetensors {
    json_t *header;            /* owns the names */
    struct tensor_table table; /* the tensors are in the order of their data */
};

#define SAFETENSORS_LENGTH_BYTES 8

/* Reads the length of the header from `bytes`, the first SAFETENSORS_LENGTH_BYTES bytes of a file of `size` bytes, or
 * the whole file if it is shorter. Checks that the header fits in the file. This function and the next ones do no I/O.
 * Their errors do not name the file. */
int safetensors_header(const void *bytes, size_t size, size_t *header_size, struct error *error);

/* Parses the header (header_size bytes of JSON) and checks it against the size of the data. The data itself is not
 * needed yet. safetensors_place sets the addresses of the tensors later. */
int safetensors_parse(const char *header, size_t header_size, size_t data_size, struct safetensors *file,
                      struct error *error);
void safetensors_place(struct safetensors *file, const void *data);
void safetensors_free(struct safetensors *file);

#endif
