#include "weights/safetensors.h"
#include "weights/shards.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX_LIMIT_BYTES ((size_t)100000000) /* as the header of a safetensors file */

/* One safetensors file. */
struct part {
    struct safetensors table;
    char *bytes; /* the file's data; NULL: the memory belongs to the caller */
};

struct weights {
    char *origin;
    struct part *parts; /* (n_parts) one, or those that an index names */
    size_t n_parts;
    size_t n_tensors; /* of all parts */
};

/* Without tensors yet. NULL: no memory. */
static struct weights *weights_new(const char *origin, size_t n_parts, struct error *error)
{
    struct weights *weights = calloc(1, sizeof *weights);
    if (weights) {
        weights->origin = strdup(origin);
        weights->parts = calloc(n_parts, sizeof *weights->parts);
    }
    if (weights && weights->origin && weights->parts) {
        weights->n_parts = n_parts;
        return weights;
    }
    weights_close(weights);
    error_set(error, "out of memory");
    return NULL;
}

static int parse_memory(struct part *part, const char *bytes, size_t size, struct error *error)
{
    size_t header_size;
    if (safetensors_header(bytes, size, &header_size, error) != 0)
        return -1;
    const char *header = bytes + SAFETENSORS_LENGTH_BYTES, *data = header + header_size;
    if (safetensors_parse(header, header_size, size - (size_t)(data - bytes), &part->table, error) != 0)
        return -1;
    safetensors_place(&part->table, data);
    return 0;
}

int weights_open_memory(const void *bytes, size_t size, const char *origin, struct weights **opened,
                        struct error *error)
{
    struct weights *weights = weights_new(origin, 1, error);
    if (!weights || parse_memory(&weights->parts[0], bytes, size, error) != 0) {
        weights_close(weights);
        return error_prefix(error, "%s", origin);
    }
    weights->n_tensors = weights->parts[0].table.n_tensors;
    *opened = weights;
    return 0;
}

/* The header of a file of `size` bytes, whose data_size bytes of data come next. */
static int read_header(struct part *part, int file, size_t size, size_t *data_size, struct error *error)
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
        status = safetensors_parse(header, header_size, *data_size, &part->table, error);
    free(header);
    return status;
}

static int read_data(struct part *part, int file, size_t data_size, struct error *error)
{
    part->bytes = malloc(data_size + 1);
    if (!part->bytes)
        return error_set(error, "out of memory: %zu bytes to read its data", data_size);
    if (file_read_next(file, part->bytes, data_size, error) != 0)
        return -1;
    safetensors_place(&part->table, part->bytes);
    return 0;
}

static int read_file(struct part *part, const char *path, struct error *error)
{
    size_t size, data_size = 0;
    int file = file_open(path, &size, error);
    if (file < 0)
        return -1;
    int status = read_header(part, file, size, &data_size, error);
    if (status == 0)
        status = read_data(part, file, data_size, error);
    close(file);
    return status;
}

/* ---- Several files ---- */

/* Each tensor is where the index says, and nowhere else. */
static int check_parts(const struct weights *weights, const struct shards *shards, struct error *error)
{
    const char *name;
    json_t *file;
    json_object_foreach ((json_t *)shards->weight_map, name, file) {
        size_t part = 0;
        while (strcmp(shards->files[part], json_string_value(file)) != 0)
            part++;
        if (!safetensors_find(&weights->parts[part].table, name))
            return error_set(error, "weight_map: tensor '%.120s' is not in %.120s", name, shards->files[part]);
    }
    for (size_t part = 1; part < weights->n_parts; part++)
        for (size_t i = 0; i < weights->parts[part].table.n_tensors; i++)
            for (size_t other = 0; other < part; other++) {
                name = weights->parts[part].table.tensors[i].name;
                if (safetensors_find(&weights->parts[other].table, name))
                    return error_set(error, "tensor '%.120s' is both in %.120s and in %.120s", name,
                                     shards->files[other], shards->files[part]);
            }
    return 0;
}

/* The files lie in the index's folder. */
static int read_parts(struct weights *weights, const char *path, const struct shards *shards, struct error *error)
{
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    for (size_t i = 0; i < shards->n_files; i++) {
        size_t length = (size_t)folder + strlen(shards->files[i]) + 1;
        char *file = malloc(length);
        if (!file)
            return error_set(error, "out of memory");
        snprintf(file, length, "%.*s%s", folder, path, shards->files[i]);
        int status = read_file(&weights->parts[i], file, error);
        free(file);
        if (status != 0)
            return error_prefix(error, "%s", shards->files[i]);
    }
    return check_parts(weights, shards, error);
}

static struct weights *open_index(const char *path, struct error *error)
{
    struct shards shards;
    size_t length;
    char *text = file_read(path, INDEX_LIMIT_BYTES, &length, error);
    if (!text)
        return NULL;
    int status = shards_parse(text, length, &shards, error);
    free(text);
    struct weights *weights = status == 0 ? weights_new(path, shards.n_files, error) : NULL;
    if (weights && read_parts(weights, path, &shards, error) != 0) {
        weights_close(weights);
        weights = NULL;
    }
    if (status == 0)
        shards_free(&shards);
    if (!weights)
        error_prefix(error, "%s", path);
    return weights;
}

/* ---- Opening and closing ---- */

static struct weights *open_file(const char *path, struct error *error)
{
    struct weights *weights = weights_new(path, 1, error);
    if (weights && read_file(&weights->parts[0], path, error) == 0)
        return weights;
    weights_close(weights);
    error_prefix(error, "%s", path);
    return NULL;
}

int weights_open(const char *path, struct weights **opened, struct error *error)
{
    static const char suffix[] = ".index.json";
    size_t length = strlen(path), end = sizeof suffix - 1;
    bool index = length > end && strcmp(path + length - end, suffix) == 0;
    struct weights *weights = index ? open_index(path, error) : open_file(path, error);
    if (!weights)
        return -1;
    for (size_t i = 0; i < weights->n_parts; i++)
        weights->n_tensors += weights->parts[i].table.n_tensors;
    *opened = weights;
    return 0;
}

void weights_close(struct weights *weights)
{
    if (!weights)
        return;
    for (size_t i = 0; i < weights->n_parts; i++) {
        safetensors_free(&weights->parts[i].table);
        free(weights->parts[i].bytes);
    }
    free(weights->parts);
    free(weights->origin);
    free(weights);
}

const char *weights_origin(const struct weights *weights)
{
    return weights->origin;
}

size_t weights_count(const struct weights *weights)
{
    return weights->n_tensors;
}

const struct weights_tensor *weights_at(const struct weights *weights, size_t index)
{
    assert(index < weights->n_tensors);
    const struct part *part = weights->parts;
    for (; index >= part->table.n_tensors; part++)
        index -= part->table.n_tensors;
    return &part->table.tensors[index];
}

const struct weights_tensor *weights_find(const struct weights *weights, const char *name)
{
    const struct weights_tensor *tensor = NULL;
    for (size_t i = 0; i < weights->n_parts && !tensor; i++)
        tensor = safetensors_find(&weights->parts[i].table, name);
    return tensor;
}

size_t weights_index(const struct weights *weights, const struct weights_tensor *tensor)
{
    size_t before = 0;
    for (size_t i = 0; i < weights->n_parts; i++) {
        const struct safetensors *table = &weights->parts[i].table;
        if (tensor >= table->tensors && tensor < table->tensors + table->n_tensors)
            return before + (size_t)(tensor - table->tensors);
        before += table->n_tensors;
    }
    assert(!"a tensor of other weights");
    return before;
}
