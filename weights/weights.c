#include "weights/safetensors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct weights {
    struct safetensors table;
    char *origin;
    char *bytes; /* a file's data; NULL: the memory belongs to the caller */
};

/* Without tensors yet. NULL: no memory. */
static struct weights *weights_new(const char *origin, struct error *error)
{
    struct weights *weights = calloc(1, sizeof *weights);
    if (weights && (weights->origin = strdup(origin)))
        return weights;
    free(weights);
    error_set(error, "out of memory");
    return NULL;
}

static int parse_memory(struct weights *weights, const char *bytes, size_t size, struct error *error)
{
    size_t header_size;
    if (safetensors_header(bytes, size, &header_size, error) != 0)
        return -1;
    const char *header = bytes + SAFETENSORS_LENGTH_BYTES, *data = header + header_size;
    if (safetensors_parse(header, header_size, size - (size_t)(data - bytes), &weights->table, error) != 0)
        return -1;
    safetensors_place(&weights->table, data);
    return 0;
}

int weights_open_memory(const void *bytes, size_t size, const char *origin, struct weights **opened,
                        struct error *error)
{
    struct weights *weights = weights_new(origin, error);
    if (!weights || parse_memory(weights, bytes, size, error) != 0) {
        weights_close(weights);
        return error_prefix(error, "%s", origin);
    }
    *opened = weights;
    return 0;
}

/* The header of a file of `size` bytes, whose data_size bytes of data come next. */
static int read_header(struct weights *weights, int file, size_t size, size_t *data_size, struct error *error)
{
    char length[SAFETENSORS_LENGTH_BYTES];
    size_t header_size;
    if ((size >= sizeof length && file_read_next(file, length, sizeof length, error) != 0) ||
        safetensors_header(length, size, &header_size, error) != 0)
        return -1;
    char *header = malloc(header_size + 1);
    if (!header)
        return error_set(error, "out of memory for a header of %zu bytes", header_size);
    *data_size = size - sizeof length - header_size;
    int status = file_read_next(file, header, header_size, error);
    if (status == 0)
        status = safetensors_parse(header, header_size, *data_size, &weights->table, error);
    free(header);
    return status;
}

static int read_data(struct weights *weights, int file, size_t data_size, struct error *error)
{
    weights->bytes = malloc(data_size + 1);
    if (!weights->bytes)
        return error_set(error, "out of memory: %zu bytes to read its data", data_size);
    if (file_read_next(file, weights->bytes, data_size, error) != 0)
        return -1;
    safetensors_place(&weights->table, weights->bytes);
    return 0;
}

static int read_file(struct weights *weights, const char *path, struct error *error)
{
    size_t size, data_size = 0;
    int file = file_open(path, &size, error);
    if (file < 0)
        return -1;
    int status = read_header(weights, file, size, &data_size, error);
    if (status == 0)
        status = read_data(weights, file, data_size, error);
    close(file);
    return status;
}

int weights_open(const char *path, struct weights **opened, struct error *error)
{
    struct weights *weights = weights_new(path, error);
    if (!weights || read_file(weights, path, error) != 0) {
        weights_close(weights);
        return error_prefix(error, "%s", path);
    }
    *opened = weights;
    return 0;
}

void weights_close(struct weights *weights)
{
    if (!weights)
        return;
    safetensors_free(&weights->table);
    free(weights->origin);
    free(weights->bytes);
    free(weights);
}

const char *weights_origin(const struct weights *weights)
{
    return weights->origin;
}

size_t weights_count(const struct weights *weights)
{
    return weights->table.n_tensors;
}

const struct weights_tensor *weights_at(const struct weights *weights, size_t index)
{
    assert(index < weights->table.n_tensors);
    return &weights->table.tensors[index];
}

const struct weights_tensor *weights_find(const struct weights *weights, const char *name)
{
    return safetensors_find(&weights->table, name);
}

size_t weights_index(const struct weights *weights, const struct weights_tensor *tensor)
{
    assert(tensor >= weights->table.tensors && tensor < weights->table.tensors + weights->table.n_tensors);
    return (size_t)(tensor - weights->table.tensors);
}
