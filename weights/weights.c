#include "weights/weights.h"
#include "weights/foreign.h"
#include "weights/safetensors.h"
#include "weights/shard_index.h"
#include "weights/torch_archive.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INDEX_LIMIT_BYTES ((size_t)100000000) /* the same limit as for the header of a safetensors file */

/* One file: a safetensors file, or an archive of torch.save. */
struct shard {
    struct safetensors safetensors; /* zeroed if the file is an archive */
    struct torch_archive *archive;  /* NULL if it is a safetensors file */
    char *name;                     /* name in the index. NULL if there is no index */
    int file;         /* the descriptor, which for a safetensors file is positioned at the start of the data. -1 if
                         nothing is left to read */
    size_t size;      /* bytes of the file */
    size_t data_size; /* bytes of the data of a safetensors file */
    char *bytes;      /* (data_size): the data. NULL if it was not read yet, or if the caller or the archive owns it */
};

struct weights {
    char *origin;
    struct shard *shards; /* (n_shards): one file, or all files of an index */
    size_t n_shards;
    size_t n_tensors; /* number of tensors of all shards */
    json_t *aliases;  /* shard_index.aliases. NULL if there is no index */
};

static const struct tensor_table *table_of(const struct shard *shard)
{
    return shard->archive ? torch_archive_table(shard->archive) : &shard->safetensors.table;
}

/* Makes a struct without tensors. NULL if memory is lacking. */
static struct weights *weights_new(const char *origin, size_t n_shards, struct error *error)
{
    struct weights *weights = calloc(1, sizeof *weights);
    if (weights) {
        weights->origin = strdup(origin);
        weights->shards = calloc(n_shards, sizeof *weights->shards);
    }
    if (weights && weights->origin && weights->shards) {
        weights->n_shards = n_shards;
        for (size_t i = 0; i < n_shards; i++)
            weights->shards[i].file = -1;
        return weights;
    }
    weights_close(weights);
    error_set(error, "out of memory");
    return NULL;
}

static int parse_memory(struct shard *shard, const char *bytes, size_t size, struct error *error)
{
    size_t header_size;
    if (safetensors_header(bytes, size, &header_size, error) != 0)
        return -1;
    const char *header = bytes + SAFETENSORS_LENGTH_BYTES, *data = header + header_size;
    if (safetensors_parse(header, header_size, size - (size_t)(data - bytes), &shard->safetensors, error) != 0)
        return -1;
    safetensors_place(&shard->safetensors, data);
    return 0;
}

int weights_open_memory(const void *bytes, size_t size, const char *origin, struct weights **opened,
                        struct error *error)
{
    struct weights *weights = weights_new(origin, 1, error);
    if (!weights || parse_memory(&weights->shards[0], bytes, size, error) != 0) {
        weights_close(weights);
        return error_prefix(error, "%s", origin);
    }
    weights->n_tensors = table_of(&weights->shards[0])->n_tensors;
    *opened = weights;
    return 0;
}

/* Reads the header of a safetensors file. */
static int open_safetensors(struct shard *shard, struct error *error)
{
    size_t size = shard->size;
    char length[SAFETENSORS_LENGTH_BYTES];
    size_t header_size;
    if ((size >= sizeof length && file_read_next(shard->file, length, sizeof length, error) != 0) ||
        safetensors_header(length, size, &header_size, error) != 0)
        return -1;
    char *header = malloc(header_size + 1);
    if (!header)
        return error_set(error, "out of memory for a header of %zu bytes", header_size);
    shard->data_size = size - sizeof length - header_size;
    int status = file_read_next(shard->file, header, header_size, error);
    if (status == 0)
        status = safetensors_parse(header, header_size, shard->data_size, &shard->safetensors, error);
    free(header);
    return status;
}

static struct zip_source source_of(const struct shard *shard)
{
    return (struct zip_source){.file = shard->file, .size = shard->size};
}

/* Opens a file whose name says that torch.save wrote it. Its first bytes tell other formats apart. */
static int open_archive(struct shard *shard, struct error *error)
{
    struct zip_source source = source_of(shard);
    char start[FOREIGN_BYTES];
    if (shard->size < sizeof start)
        return error_set(error, "has %zu bytes, expected a file of torch.save", shard->size);
    if (zip_source_read(&source, 0, start, sizeof start, error) != 0)
        return -1;
    const char *format = foreign_not_torch(start);
    return format ? error_set(error, "is %s", format) : torch_archive_open(&source, &shard->archive, error);
}

static bool ends_in(const char *path, const char *suffix)
{
    size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

/* Whether a file of this name comes from torch.save. */
static bool is_of_torch(const char *path)
{
    return ends_in(path, ".pt") || ends_in(path, ".pth") || ends_in(path, ".bin");
}

static int open_shard(struct shard *shard, const char *path, struct error *error)
{
    shard->file = file_open(path, &shard->size, error);
    if (shard->file < 0)
        return -1;
    return is_of_torch(path) ? open_archive(shard, error) : open_safetensors(shard, error);
}

static void close_file(struct shard *shard)
{
    if (shard->file >= 0)
        close(shard->file);
    shard->file = -1;
}

static int read_data(struct shard *shard, struct error *error)
{
    if (shard->archive) {
        struct zip_source source = source_of(shard);
        if (torch_archive_read(shard->archive, &source, error) != 0)
            return -1;
        close_file(shard);
        return 0;
    }
    shard->bytes = malloc(shard->data_size + 1);
    if (!shard->bytes)
        return error_set(error, "out of memory: its data needs %zu bytes", shard->data_size);
    if (file_read_next(shard->file, shard->bytes, shard->data_size, error) != 0)
        return -1;
    safetensors_place(&shard->safetensors, shard->bytes);
    close_file(shard);
    return 0;
}

/* ---- Several files ---- */

/* Checks that each tensor is in the file that the index names. */
static int check_map(const struct weights *weights, const struct shard_index *index, struct error *error)
{
    const char *name;
    json_t *file;
    json_object_foreach ((json_t *)index->weight_map, name, file) {
        size_t shard = 0;
        while (strcmp(index->files[shard], json_string_value(file)) != 0)
            shard++;
        if (!tensor_table_find(table_of(&weights->shards[shard]), name))
            return error_set(error, "weight_map: tensor '%.120s' is not in %.120s", name, index->files[shard]);
    }
    return 0;
}

/* Checks that no alias of a stored tensor is itself the name of a stored tensor. */
static int check_aliases(const struct weights *weights, const struct shard_index *index, struct error *error)
{
    const char *alias;
    json_t *name;
    json_object_foreach (index->aliases, alias, name) {
        bool stored = false, known = false;
        for (size_t i = 0; i < weights->n_shards; i++) {
            stored = stored || tensor_table_find(table_of(&weights->shards[i]), alias);
            known = known || tensor_table_find(table_of(&weights->shards[i]), json_string_value(name));
        }
        if (stored && known)
            return error_set(error, "metadata: '%.120s' is mapped to '%.120s', but is itself stored in a file", alias,
                             json_string_value(name));
    }
    return 0;
}

/* Checks that no earlier shard contains a name that is in this shard. */
static int check_names(const struct weights *weights, size_t shard, const struct shard_index *index,
                       struct error *error)
{
    const struct tensor_table *table = table_of(&weights->shards[shard]);
    for (size_t other = 0; other < shard; other++)
        for (size_t i = 0; i < table->n_names; i++)
            if (tensor_table_find(table_of(&weights->shards[other]), table->names[i].name))
                return error_set(error, "tensor '%.120s' is both in %.120s and in %.120s", table->names[i].name,
                                 index->files[other], index->files[shard]);
    return 0;
}

static int open_named(struct shard *shard, const char *folder, int folder_length, const char *name, struct error *error)
{
    size_t length = (size_t)folder_length + strlen(name) + 1;
    char *path = malloc(length);
    shard->name = strdup(name);
    int status = -1;
    if (path && shard->name) {
        snprintf(path, length, "%.*s%s", folder_length, folder, name);
        status = open_shard(shard, path, error);
    } else {
        error_set(error, "out of memory");
    }
    free(path);
    return status == 0 ? 0 : error_prefix(error, "%s", name);
}

/* Opens the files, which are in the folder of the index. */
static int open_shards(struct weights *weights, const char *path, const struct shard_index *index, struct error *error)
{
    const char *slash = strrchr(path, '/');
    int folder_length = slash ? (int)(slash - path) + 1 : 0;
    for (size_t i = 0; i < index->n_files; i++)
        if (open_named(&weights->shards[i], path, folder_length, index->files[i], error) != 0 ||
            check_names(weights, i, index, error) != 0)
            return -1;
    if (check_map(weights, index, error) != 0 || check_aliases(weights, index, error) != 0)
        return -1;
    weights->aliases = json_incref(index->aliases);
    return 0;
}

static struct weights *open_index(const char *path, struct error *error)
{
    struct shard_index index;
    size_t length;
    char *text = file_read(path, INDEX_LIMIT_BYTES, &length, error);
    if (!text)
        return NULL;
    int status = shard_index_parse(text, length, &index, error);
    free(text);
    struct weights *weights = status == 0 ? weights_new(path, index.n_files, error) : NULL;
    if (weights && open_shards(weights, path, &index, error) != 0) {
        weights_close(weights);
        weights = NULL;
    }
    if (status == 0)
        shard_index_free(&index);
    if (!weights)
        error_prefix(error, "%s", path);
    return weights;
}

/* ---- Opening, reading and closing ---- */

static struct weights *open_file(const char *path, struct error *error)
{
    struct weights *weights = weights_new(path, 1, error);
    if (weights && open_shard(&weights->shards[0], path, error) == 0)
        return weights;
    weights_close(weights);
    error_prefix(error, "%s", path);
    return NULL;
}

int weights_open(const char *path, struct weights **opened, struct error *error)
{
    struct weights *weights = ends_in(path, ".index.json") ? open_index(path, error) : open_file(path, error);
    if (!weights)
        return -1;
    for (size_t i = 0; i < weights->n_shards; i++)
        weights->n_tensors += table_of(&weights->shards[i])->n_tensors;
    *opened = weights;
    return 0;
}

int weights_read(struct weights *weights, struct error *error)
{
    for (size_t i = 0; i < weights->n_shards; i++) {
        struct shard *shard = &weights->shards[i];
        if (shard->file < 0 || read_data(shard, error) == 0)
            continue;
        if (shard->name)
            error_prefix(error, "%s", shard->name);
        return error_prefix(error, "%s", weights->origin);
    }
    return 0;
}

void weights_close(struct weights *weights)
{
    if (!weights)
        return;
    for (size_t i = 0; i < weights->n_shards; i++) {
        safetensors_free(&weights->shards[i].safetensors);
        torch_archive_close(weights->shards[i].archive);
        close_file(&weights->shards[i]);
        free(weights->shards[i].name);
        free(weights->shards[i].bytes);
    }
    json_decref(weights->aliases);
    free(weights->shards);
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
    const struct shard *shard = weights->shards;
    for (; index >= table_of(shard)->n_tensors; shard++)
        index -= table_of(shard)->n_tensors;
    return &table_of(shard)->tensors[index];
}

static const struct weights_tensor *find_stored(const struct weights *weights, const char *name)
{
    const struct weights_tensor *tensor = NULL;
    for (size_t i = 0; i < weights->n_shards && !tensor; i++)
        tensor = tensor_table_find(table_of(&weights->shards[i]), name);
    return tensor;
}

const struct weights_tensor *weights_find(const struct weights *weights, const char *name)
{
    const struct weights_tensor *tensor = find_stored(weights, name);
    const char *stored = tensor ? NULL : json_string_value(json_object_get(weights->aliases, name));
    return stored ? find_stored(weights, stored) : tensor;
}

size_t weights_index(const struct weights *weights, const struct weights_tensor *tensor)
{
    size_t before = 0;
    for (size_t i = 0; i < weights->n_shards; i++) {
        const struct tensor_table *table = table_of(&weights->shards[i]);
        if (tensor >= table->tensors && tensor < table->tensors + table->n_tensors)
            return before + (size_t)(tensor - table->tensors);
        before += table->n_tensors;
    }
    assert(!"the tensor belongs to other weights");
    return before;
}
