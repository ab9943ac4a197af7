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

/* What a file holds. safetensors_parse succeeded: safetensors_free is owed. */
struct safetensors {
    json_t *header; /* owns names and metadata */
    struct weights_tensor *tensors;
    size_t n_tensors; /* in the order of their data */
    struct safetensors_name *names;
    size_t n_names; /* sorted by strcmp */
};

#define SAFETENSORS_LENGTH_BYTES 8

/* The header's length, from the first SAFETENSORS_LENGTH_BYTES bytes of a file of `size` bytes; fewer bytes are read of
 * a file that has fewer. The header and what follows it are then known to fit the file. No I/O, as below. Errors do not
 * name the file. */
int safetensors_header(const void *bytes, size_t size, size_t *header_size, struct error *error);

/* Reads the header (header_size bytes of JSON), checked against the data_size bytes that follow it in the file. They
 * need not be there yet: the tensors have offsets, and safetensors_place gives them addresses. */
int safetensors_parse(const char *header, size_t header_size, size_t data_size, struct safetensors *table,
                      struct error *error);
void safetensors_place(struct safetensors *table, const void *data);
void safetensors_free(struct safetensors *table);

/* NULL: there is none. */
const struct weights_tensor *safetensors_find(const struct safetensors *table, const char *name);

#endif
