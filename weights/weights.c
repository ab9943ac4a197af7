#include "weights/safetensors.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct weights {
    struct safetensors table;
    char *origin;
    char *bytes; /* of a file; NULL: the memory is somebody else's */
};

int weights_open_memory(const void *bytes, size_t size, const char *origin, struct weights **weights,
                        struct error *error)
{
    struct weights *opened = calloc(1, sizeof *opened);
    if (!opened || !(opened->origin = strdup(origin))) {
        error_set(error, "out of memory");
        goto fail;
    }
    if (safetensors_parse(bytes, size, &opened->table, error) != 0)
        goto fail;
    *weights = opened;
    return 0;

fail:
    weights_close(opened);
    return error_prefix(error, "%s", origin);
}

int weights_open(const char *path, struct weights **weights, struct error *error)
{
    size_t size;
    char *bytes = file_read(path, PTRDIFF_MAX - 1, &size, error);
    if (!bytes)
        return -1;
    if (weights_open_memory(bytes, size, path, weights, error) != 0) {
        free(bytes);
        return -1;
    }
    (*weights)->bytes = bytes;
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
