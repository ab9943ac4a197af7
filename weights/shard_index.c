#include "weights/shard_index.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN "%.120s" /* names come from the file */

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Sorts the names and removes repetitions. Returns the number of remaining names. */
static size_t sort_once(const char **names, size_t count)
{
    size_t kept = 0;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0)
            names[kept++] = names[i];
    return kept;
}

static int read_files(struct shard_index *index, struct error *error)
{
    const char *tensor;
    json_t *file;
    index->files = calloc(json_object_size(index->weight_map), sizeof *index->files);
    if (!index->files)
        return error_set(error, "out of memory for %zu names", json_object_size(index->weight_map));
    json_object_foreach ((json_t *)index->weight_map, tensor, file) {
        const char *name = json_string_value(file);
        if (!name || name[0] == '\0' || name[0] == '.' || strchr(name, '/'))
            return error_set(
                error, "weight_map: the value of '" SHOWN "' must be the name of a file in the same folder", tensor);
        index->files[index->n_files++] = name;
    }
    index->n_files = sort_once(index->files, index->n_files);
    if (index->n_files > SHARD_INDEX_FILES)
        return error_set(error, "weight_map: names %zu files, expected at most %d", index->n_files, SHARD_INDEX_FILES);
    return 0;
}

/* Reads the strings of the metadata. Other members, such as the number total_size, describe the checkpoint. */
static int read_aliases(struct shard_index *index, struct error *error)
{
    const char *key;
    json_t *value, *metadata = json_object_get(index->json, "metadata");
    index->aliases = json_object();
    if (metadata && !json_is_object(metadata))
        return error_set(error, "metadata is not an object");
    json_object_foreach (metadata, key, value) {
        if (json_is_string(value) && strcmp(key, "format") != 0 && json_object_set(index->aliases, key, value) != 0)
            return error_set(error, "out of memory for names");
    }
    return index->aliases ? 0 : error_set(error, "out of memory for names");
}

int shard_index_parse(const char *text, size_t length, struct shard_index *index, struct error *error)
{
    json_error_t reason = {0};
    *index = (struct shard_index){.json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &reason)};
    if (!index->json && (reason.text[0] == '\0' || json_error_code(&reason) == json_error_out_of_memory))
        return error_set(error, "out of memory for an index of %zu bytes", length);
    if (!index->json)
        return error_set(error, "is not valid JSON: %s, line %d, column %d", reason.text, reason.line, reason.column);
    index->weight_map = json_object_get(index->json, "weight_map");
    int status = 0;
    if (!json_is_object(index->weight_map) || json_object_size(index->weight_map) == 0)
        status = error_set(error, "expected \"weight_map\", an object that maps names of tensors to files");
    else if (read_files(index, error) != 0 || read_aliases(index, error) != 0)
        status = -1;
    if (status != 0)
        shard_index_free(index);
    return status;
}

void shard_index_free(struct shard_index *index)
{
    free(index->files);
    json_decref(index->aliases);
    json_decref(index->json);
    *index = (struct shard_index){0};
}
