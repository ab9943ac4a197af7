#include "weights/safetensors.h"
#include "weights/foreign.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES SAFETENSORS_LENGTH_BYTES
#define HEADER_LIMIT_BYTES 100000000 /* the limit in the safetensors library */
#define METADATA_KEY "__metadata__"

_Static_assert(FOREIGN_BYTES <= LENGTH_BYTES, "the format is recognised by the bytes of the length");

/* Messages show only 120 bytes of a name, because a name in a file may be as long as the header. */
#define SHOWN "%.120s"

static uint64_t little_endian_u64(const unsigned char *bytes)
{
    uint64_t value = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

/* Parses the JSON of the header. Returns NULL after an error. */
static json_t *parse_header(const char *text, size_t length, struct error *error)
{
    if (length == 0 || text[0] != '{') {
        error_set(error, "the header is not a JSON object: expected { at byte %d", LENGTH_BYTES);
        return NULL;
    }
    json_error_t reason = {0};
    json_t *header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &reason);
    if (!header && (reason.text[0] == '\0' || json_error_code(&reason) == json_error_out_of_memory))
        error_set(error, "out of memory for a header of %zu bytes", length);
    else if (!header)
        error_set(error, "the header is not valid JSON: %s, before byte %d", reason.text,
                  LENGTH_BYTES + reason.position);
    return header;
}

/* ---- One tensor ----------------------------------------------------------------------------------------------- */

static int parse_dtype(const json_t *value, enum weights_dtype *dtype, struct error *error)
{
    if (!json_is_string(value))
        return error_set(error, "dtype is not a string");
    for (int i = 0; i < WEIGHTS_DTYPE_COUNT; i++)
        if (strcmp(json_string_value(value), weights_dtype_name((enum weights_dtype)i)) == 0) {
            *dtype = (enum weights_dtype)i;
            return 0;
        }
    return error_set(error, "unknown dtype " SHOWN "; expected F64, F32, F16 or BF16, or an integer type up to 64 bits",
                     json_string_value(value));
}

static int parse_shape(const json_t *value, struct weights_tensor *tensor, struct error *error)
{
    if (!json_is_array(value))
        return error_set(error, "shape is not a list");
    if (json_array_size(value) > WEIGHTS_MAX_RANK)
        return error_set(error, "shape has %zu dimensions, expected at most %d", json_array_size(value),
                         WEIGHTS_MAX_RANK);
    tensor->rank = (int)json_array_size(value);
    tensor->elements = 1;
    for (int i = 0; i < tensor->rank; i++) {
        const json_t *dimension = json_array_get(value, (size_t)i);
        if (!json_is_integer(dimension))
            return error_set(error, "dimension %d of shape is not an integer", i);
        tensor->shape[i] = json_integer_value(dimension);
        if (tensor->shape[i] < 0)
            return error_set(error, "dimension %d of shape is negative: %lld", i, (long long)tensor->shape[i]);
    }
    char text[192];
    for (int i = 0; i < tensor->rank; i++)
        if (__builtin_mul_overflow(tensor->elements, tensor->shape[i], &tensor->elements))
            return error_set(error, "shape %s has too many elements to count",
                             weights_shape_text(tensor->rank, tensor->shape, text, sizeof text));
    return 0;
}

/* Sets offset and bytes of a tensor with known dtype and shape. */
static int parse_offsets(const json_t *value, size_t data_size, struct weights_tensor *tensor, struct error *error)
{
    const json_t *first = json_array_get(value, 0), *second = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(first) || !json_is_integer(second))
        return error_set(error, "data_offsets is not a list of two integers");
    long long begin = json_integer_value(first), end = json_integer_value(second);
    if (begin < 0 || begin > end)
        return error_set(error, "data_offsets [%lld, %lld] must not decrease or be negative", begin, end);
    if ((unsigned long long)end > data_size)
        return error_set(error, "data_offsets [%lld, %lld] end beyond the file, which has %zu bytes of data", begin,
                         end, data_size);
    char text[192];
    int64_t bytes;
    bool countable = !__builtin_mul_overflow(tensor->elements, (int64_t)weights_dtype_size(tensor->dtype), &bytes);
    if (!countable || bytes != end - begin)
        return error_set(error, "data_offsets [%lld, %lld] span %lld bytes, which does not match %s of shape %s", begin,
                         end, end - begin, weights_dtype_name(tensor->dtype),
                         weights_shape_text(tensor->rank, tensor->shape, text, sizeof text));
    tensor->offset = (size_t)begin;
    tensor->bytes = (size_t)bytes;
    return 0;
}

static int parse_tensor(const json_t *entry, size_t data_size, struct weights_tensor *tensor, struct error *error)
{
    if (!json_is_object(entry))
        return error_set(error, "expected an object with dtype, shape and data_offsets");
    static const char *const keys[] = {"dtype", "shape", "data_offsets"};
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)entry, key, value) {
        if (strcmp(key, keys[0]) != 0 && strcmp(key, keys[1]) != 0 && strcmp(key, keys[2]) != 0)
            return error_set(error, "unknown key " SHOWN "; expected dtype, shape and data_offsets", key);
    }
    for (int i = 0; i < 3; i++)
        if (!json_object_get(entry, keys[i]))
            return error_set(error, "the key %s is missing", keys[i]);
    if (parse_dtype(json_object_get(entry, "dtype"), &tensor->dtype, error) != 0 ||
        parse_shape(json_object_get(entry, "shape"), tensor, error) != 0)
        return -1;
    return parse_offsets(json_object_get(entry, "data_offsets"), data_size, tensor, error);
}

/* ---- All tensors ---------------------------------------------------------------------------------------------- */

/* Orders tensors by offset. A tensor without elements comes before another tensor at the same offset. */
static int compare_places(const void *left, const void *right)
{
    const struct weights_tensor *a = left, *b = right;
    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Checks for gaps and overlaps. The tensors are sorted by compare_places, and end within the data. */
static int check_cover(const struct tensor_table *table, size_t data_size, struct error *error)
{
    size_t next = 0;
    for (size_t i = 0; i < table->n_tensors; i++) {
        const struct weights_tensor *tensor = &table->tensors[i];
        if (tensor->offset < next)
            return error_set(error,
                             "tensor '" SHOWN "' overlaps '" SHOWN "': it begins at byte %zu of the data, expected %zu",
                             tensor->name, table->tensors[i - 1].name, tensor->offset, next);
        if (tensor->offset > next)
            return error_set(error, "bytes %zu to %zu of the data, before tensor '" SHOWN "', belong to no tensor",
                             next, tensor->offset, tensor->name);
        next = tensor->offset + tensor->bytes;
    }
    if (next != data_size)
        return error_set(error, "the data has %zu bytes, but its tensors end after %zu", data_size, next);
    return 0;
}

static int parse_tensors(struct safetensors *file, size_t data_size, struct error *error)
{
    struct tensor_table *table = &file->table;
    size_t count = json_object_size(file->header);
    table->tensors = calloc(count + 1, sizeof *table->tensors);
    if (!table->tensors)
        return error_set(error, "out of memory for %zu tensors", count);
    const char *name;
    json_t *entry;
    json_object_foreach (file->header, name, entry) {
        if (strcmp(name, METADATA_KEY) == 0)
            continue;
        struct weights_tensor *tensor = &table->tensors[table->n_tensors++];
        tensor->name = name;
        if (parse_tensor(entry, data_size, tensor, error) != 0)
            return error_prefix(error, "tensor '" SHOWN "'", name);
    }
    qsort(table->tensors, table->n_tensors, sizeof *table->tensors, compare_places);
    return check_cover(table, data_size, error);
}

/* ---- Names ---------------------------------------------------------------------------------------------------- */

/* Appends the aliases to the names in the header, and sorts all. n_names is increased last, so that until then
 * only the names in the header are searched. */
static int add_aliases(struct tensor_table *table, const json_t *metadata, struct error *error)
{
    struct tensor_name *alias = table->names + table->n_names;
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)metadata, key, value) {
        if (!json_is_string(value))
            return error_set(error, METADATA_KEY ": the value of '" SHOWN "' is not a string", key);
        const struct tensor_name *stored = tensor_table_name(table, json_string_value(value));
        if (strcmp(key, "format") == 0 || !stored)
            continue;
        if (tensor_table_name(table, key))
            return error_set(error,
                             METADATA_KEY ": '" SHOWN "' is mapped to '" SHOWN "', but is itself stored in the file",
                             key, stored->name);
        *alias++ = (struct tensor_name){key, stored->tensor};
    }
    table->n_names = (size_t)(alias - table->names);
    tensor_table_sort(table);
    return 0;
}

static int build_names(struct safetensors *file, struct error *error)
{
    struct tensor_table *table = &file->table;
    const json_t *metadata = json_object_get(file->header, METADATA_KEY);
    if (metadata && !json_is_object(metadata))
        return error_set(error, METADATA_KEY " is not an object");
    size_t capacity = table->n_tensors + json_object_size(metadata);
    table->names = calloc(capacity + 1, sizeof *table->names);
    if (!table->names)
        return error_set(error, "out of memory for %zu names", capacity);
    for (size_t i = 0; i < table->n_tensors; i++)
        table->names[i] = (struct tensor_name){table->tensors[i].name, i};
    table->n_names = table->n_tensors;
    tensor_table_sort(table);
    return metadata ? add_aliases(table, metadata, error) : 0;
}

int safetensors_header(const void *bytes, size_t size, size_t *header_size, struct error *error)
{
    if (size < LENGTH_BYTES)
        return size == 0
                   ? error_set(error, "is empty, expected a safetensors file")
                   : error_set(error,
                               "has %zu bytes, but a safetensors file begins with %d bytes, the length of its header",
                               size, LENGTH_BYTES);
    uint64_t length = little_endian_u64(bytes);
    /* Also matches the start of valid files, so it is used only if the length is impossible. */
    const char *format = foreign_format(bytes);
    if (format && (length > HEADER_LIMIT_BYTES || length > size - LENGTH_BYTES))
        return error_set(error, "is %s", format);
    if (length > HEADER_LIMIT_BYTES)
        return error_set(error, "is not a safetensors file: its header would have %llu bytes, expected at most %d",
                         (unsigned long long)length, HEADER_LIMIT_BYTES);
    if (length > size - LENGTH_BYTES)
        return error_set(error, "is cut off: the header has %llu bytes, but only %zu follow",
                         (unsigned long long)length, size - LENGTH_BYTES);
    *header_size = (size_t)length;
    return 0;
}

int safetensors_parse(const char *header, size_t header_size, size_t data_size, struct safetensors *file,
                      struct error *error)
{
    *file = (struct safetensors){.header = parse_header(header, header_size, error)};
    if (!file->header)
        return -1;
    if (parse_tensors(file, data_size, error) != 0 || build_names(file, error) != 0) {
        safetensors_free(file);
        return -1;
    }
    return 0;
}

void safetensors_place(struct safetensors *file, const void *data)
{
    for (size_t i = 0; i < file->table.n_tensors; i++)
        file->table.tensors[i].data = (const char *)data + file->table.tensors[i].offset;
}

void safetensors_free(struct safetensors *file)
{
    tensor_table_free(&file->table);
    json_decref(file->header);
    *file = (struct safetensors){0};
}
