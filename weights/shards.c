#include "weights/shards.h"

#include <stdlib.h>
#include <string.h>

#define SHOWN "%.120s" /* names come from the file */

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Sorts the names and drops those that come again. Returns how many are left. */
static size_t sort_once(const char **names, size_t count)
{
    size_t kept = 0;
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || strcmp(names[kept - 1], names[i]) != 0)
            names[kept++] = names[i];
    return kept;
}

static int read_files(struct shards *shards, struct error *error)
{
    const char *tensor;
    json_t *file;
    shards->files = calloc(json_object_size(shards->weight_map), sizeof *shards->files);
    if (!shards->files)
        return error_set(error, "out of memory for %zu names", json_object_size(shards->weight_map));
    json_object_foreach ((json_t *)shards->weight_map, tensor, file) {
        const char *name = json_string_value(file);
        if (!name || name[0] == '\0' || name[0] == '.' || strchr(name, '/'))
            return error_set(error, "weight_map: the value of '" SHOWN "' is no name of a file beside this one",
                             tensor);
        shards->files[shards->n_files++] = name;
    }
    shards->n_files = sort_once(shards->files, shards->n_files);
    return 0;
}

int shards_parse(const char *text, size_t length, struct shards *shards, struct error *error)
{
    json_error_t reason = {0};
    *shards = (struct shards){.index = json_loadb(text, length, JSON_REJECT_DUPLICATES, &reason)};
    if (!shards->index && (reason.text[0] == '\0' || json_error_code(&reason) == json_error_out_of_memory))
        return error_set(error, "out of memory for an index of %zu bytes", length);
    if (!shards->index)
        return error_set(error, "is no JSON: %s, line %d, column %d", reason.text, reason.line, reason.column);
    shards->weight_map = json_object_get(shards->index, "weight_map");
    int status = 0;
    if (!json_is_object(shards->weight_map) || json_object_size(shards->weight_map) == 0)
        status = error_set(error, "expected an object \"weight_map\" of tensors' names and the files that hold them");
    else
        status = read_files(shards, error);
    if (status != 0)
        shards_free(shards);
    return status;
}

void shards_free(struct shards *shards)
{
    free(shards->files);
    json_decref(shards->index);
    *shards = (struct shards){0};
}
