/* checkpoint: see checkpoint.h. */
#define _GNU_SOURCE /* asprintf, nftw */
#include "tests/http/checkpoint.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Files ---- */

static char *path_of(const char *folder, const char *name)
{
    char *path;
    assert_true(asprintf(&path, "%s/%s", folder, name) > 0);
    return path;
}

static char *read_file(const char *folder, const char *name, size_t *length)
{
    char *path = path_of(folder, name);
    struct error error;
    char *bytes = file_read(path, SIZE_MAX / 2, length, &error);
    if (!bytes)
        fail_msg("%s", error.message);
    free(path);
    return bytes;
}

static void write_file(const char *folder, const char *name, const char *bytes, size_t length)
{
    char *path = path_of(folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    free(path);
}

char *folder_make(void)
{
    const char *temporary = getenv("TMPDIR");
    char *path = path_of(temporary ? temporary : "/tmp", "linformerd-test-XXXXXX");
    assert_non_null(mkdtemp(path));
    return path;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

void folder_remove(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* ---- Reading and writing ---- */

static void copy_tensor(struct checkpoint_tensor *to, const struct weights_tensor *from)
{
    *to = (struct checkpoint_tensor){.name = strdup(from->name),
                                     .dtype = from->dtype,
                                     .rank = from->rank,
                                     .data = malloc(from->bytes + 1),
                                     .bytes = from->bytes};
    assert_true(to->name && to->data);
    memcpy(to->shape, from->shape, sizeof to->shape);
    memcpy(to->data, from->data, from->bytes);
}

static json_t *read_metadata(const char *bytes)
{
    uint64_t length;
    memcpy(&length, bytes, sizeof length);
    json_t *header = json_loadb(bytes + sizeof length, length, 0, NULL);
    json_t *metadata = json_incref(json_object_get(header, "__metadata__"));
    json_decref(header);
    return metadata;
}

struct checkpoint checkpoint_read(const char *case_name)
{
    char *folder = path_of(CASES_FOLDER, case_name);
    size_t length;
    char *bytes = read_file(folder, "model.safetensors", &length);
    struct weights *weights;
    struct error error;
    if (weights_open_memory(bytes, length, case_name, &weights, &error) != 0)
        fail_msg("%s", error.message);
    struct checkpoint checkpoint = {.tensors = calloc(weights_count(weights) + 1, sizeof *checkpoint.tensors),
                                    .count = weights_count(weights),
                                    .metadata = read_metadata(bytes)};
    for (size_t i = 0; i < checkpoint.count; i++)
        copy_tensor(&checkpoint.tensors[i], weights_at(weights, i));
    checkpoint.config = read_file(folder, "config.json", &length);
    weights_close(weights);
    free(bytes);
    free(folder);
    return checkpoint;
}

static void make_tensor(struct checkpoint_tensor *tensor, const struct checkpoint_shape *shape, uint32_t *state)
{
    int64_t elements = 1;
    for (int d = 0; d < shape->rank; d++)
        elements *= shape->shape[d];
    *tensor = (struct checkpoint_tensor){.name = strdup(shape->name),
                                         .dtype = WEIGHTS_F32,
                                         .rank = shape->rank,
                                         .data = malloc((size_t)elements * sizeof(float)),
                                         .bytes = (size_t)elements * sizeof(float)};
    assert_true(tensor->name && tensor->data);
    memcpy(tensor->shape, shape->shape, sizeof shape->shape);
    for (int64_t i = 0; i < elements; i++) {
        *state = *state * 1664525 + 1013904223; /* Numerical Recipes' generator */
        ((float *)(void *)tensor->data)[i] = ((float)(*state >> 8) / 0x1p23f - 1) * 0.1f;
    }
}

struct checkpoint checkpoint_random(const char *config, const struct checkpoint_shape *shapes, size_t count)
{
    struct checkpoint checkpoint = {
        .tensors = calloc(count + 1, sizeof *checkpoint.tensors), .count = count, .config = strdup(config)};
    uint32_t state = 1;
    assert_true(checkpoint.tensors && checkpoint.config);
    for (size_t i = 0; i < count; i++)
        make_tensor(&checkpoint.tensors[i], &shapes[i], &state);
    return checkpoint;
}

static void free_tensor(struct checkpoint_tensor *tensor)
{
    free(tensor->name);
    free(tensor->data);
}

void checkpoint_free(struct checkpoint *checkpoint)
{
    for (size_t i = 0; i < checkpoint->count; i++)
        free_tensor(&checkpoint->tensors[i]);
    free(checkpoint->tensors);
    free(checkpoint->config);
    json_decref(checkpoint->metadata);
}

static json_t *describe(const struct checkpoint_tensor *tensor, size_t begin)
{
    json_t *shape = json_array();
    for (int d = 0; d < tensor->rank; d++)
        json_array_append_new(shape, json_integer(tensor->shape[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", weights_dtype_name(tensor->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + tensor->bytes));
}

void checkpoint_write(const struct checkpoint *checkpoint, const char *folder, size_t cut)
{
    json_t *header = json_object();
    size_t data = 0;
    if (checkpoint->metadata)
        json_object_set(header, "__metadata__", checkpoint->metadata);
    for (size_t i = 0; i < checkpoint->count; data += checkpoint->tensors[i].bytes, i++)
        json_object_set_new(header, checkpoint->tensors[i].name, describe(&checkpoint->tensors[i], data));
    char *text = json_dumps(header, JSON_COMPACT);
    uint64_t header_bytes = strlen(text);
    size_t length = sizeof header_bytes + header_bytes + data;
    char *bytes = malloc(length), *end = bytes + sizeof header_bytes;
    assert_non_null(bytes);
    memcpy(bytes, &header_bytes, sizeof header_bytes);
    memcpy(end, text, header_bytes);
    end += header_bytes;
    for (size_t i = 0; i < checkpoint->count; end += checkpoint->tensors[i].bytes, i++)
        memcpy(end, checkpoint->tensors[i].data, checkpoint->tensors[i].bytes);
    assert_true(mkdir(folder, 0700) == 0 || errno == EEXIST);
    write_file(folder, "model.safetensors", bytes, length - cut);
    write_file(folder, "config.json", checkpoint->config, strlen(checkpoint->config));
    free(bytes);
    free(text);
    json_decref(header);
}

/* ---- Changes ---- */

struct checkpoint_tensor *checkpoint_tensor(struct checkpoint *checkpoint, const char *name)
{
    for (size_t i = 0; i < checkpoint->count; i++) {
        if (strcmp(checkpoint->tensors[i].name, name) == 0)
            return &checkpoint->tensors[i];
    }
    fail_msg("there is no tensor %s", name);
    return NULL;
}

void checkpoint_remove(struct checkpoint *checkpoint, const char *name)
{
    struct checkpoint_tensor *tensor = checkpoint_tensor(checkpoint, name);
    free_tensor(tensor);
    *tensor = checkpoint->tensors[--checkpoint->count];
}

void checkpoint_add(struct checkpoint *checkpoint, const char *name, int64_t elements)
{
    checkpoint->tensors = realloc(checkpoint->tensors, (checkpoint->count + 1) * sizeof *checkpoint->tensors);
    assert_non_null(checkpoint->tensors);
    checkpoint->tensors[checkpoint->count++] = (struct checkpoint_tensor){.name = strdup(name),
                                                                          .dtype = WEIGHTS_F32,
                                                                          .rank = 1,
                                                                          .shape = {elements},
                                                                          .data = calloc((size_t)elements, 4),
                                                                          .bytes = (size_t)elements * 4};
}

/* ---- Number formats ---- */

static uint16_t bf16_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16); /* the reference cases contain no NaN */
}

static float float_of_bf16(uint16_t upper)
{
    uint32_t bits = (uint32_t)upper << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float rounded(float value, enum weights_dtype dtype)
{
    return dtype == WEIGHTS_F16 ? (float)(_Float16)value : float_of_bf16(bf16_of(value));
}

void checkpoint_round(struct checkpoint *checkpoint, enum weights_dtype dtype)
{
    for (size_t i = 0; i < checkpoint->count; i++) {
        float *values = (float *)(void *)checkpoint->tensors[i].data;

        for (size_t v = 0; checkpoint->tensors[i].dtype == WEIGHTS_F32 && v < checkpoint->tensors[i].bytes / 4; v++)
            values[v] = rounded(values[v], dtype);
    }
}

static void store(float value, enum weights_dtype dtype, char *to)
{
    /* An F32 has a mantissa of 24 bits. The change is less than half of its last bit. */
    const double more = (double)value * (1 + 0x1p-30);
    const _Float16 half = (_Float16)value;
    const uint16_t upper = bf16_of(value);
    if (dtype == WEIGHTS_F64)
        memcpy(to, &more, sizeof more);
    else
        memcpy(to, dtype == WEIGHTS_F16 ? (const void *)&half : &upper, 2);
}

void checkpoint_convert(struct checkpoint *checkpoint, enum weights_dtype dtype)
{
    size_t size = weights_dtype_size(dtype);
    for (size_t i = 0; i < checkpoint->count; i++) {
        struct checkpoint_tensor *tensor = &checkpoint->tensors[i];
        const float *values = (const float *)(const void *)tensor->data;
        size_t count = tensor->bytes / 4;

        if (tensor->dtype != WEIGHTS_F32)
            continue;
        char *stored = malloc(count * size + 1);
        assert_non_null(stored);
        for (size_t v = 0; v < count; v++)
            store(values[v], dtype, stored + v * size);
        free(tensor->data);
        tensor->data = stored;
        tensor->bytes = count * size;
        tensor->dtype = dtype;
    }
}
