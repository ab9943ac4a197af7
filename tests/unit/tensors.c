#include "tests/unit/tensors.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

void random_seed(uint64_t seed)
{
    state = seed ? seed : 1;
}

/* the generator xorshift64 */
uint64_t random_next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

int64_t random_size(int64_t from, int64_t to)
{
    return from + (int64_t)(random_next() % (uint64_t)(to - from + 1));
}

float random_float(void)
{
    return (float)(random_next() >> 40) / (float)(1 << 24) * 2 - 1;
}

static int64_t elements_of(const struct tensor_shape *shape)
{
    return shape->rows ? shape->rows * shape->columns : shape->columns;
}

static json_t *describe(const struct tensor_shape *shape, int64_t offset)
{
    json_t *sizes = json_array();
    if (shape->rows)
        json_array_append_new(sizes, json_integer(shape->rows));
    json_array_append_new(sizes, json_integer(shape->columns));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", sizes, "data_offsets", (json_int_t)offset,
                     (json_int_t)(offset + elements_of(shape) * 4));
}

static void fill(const struct tensor_shape *shape, float *data)
{
    float scale = 1 / sqrtf((float)(shape->rows ? shape->columns : 1));
    for (int64_t i = 0; i < elements_of(shape); i++)
        data[i] = random_float() * scale;
}

void *tensors_random_file(const struct tensor_shape *shapes, size_t count, size_t *size)
{
    json_t *header = json_object();
    int64_t data_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        json_object_set_new(header, shapes[i].name, describe(&shapes[i], data_bytes));
        data_bytes += elements_of(&shapes[i]) * 4;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    size_t padded = (strlen(text) + 7) / 8 * 8;
    uint64_t header_length = padded;
    char *bytes = malloc(8 + padded + (size_t)data_bytes);
    memcpy(bytes, &header_length, 8);
    memset(bytes + 8, ' ', padded);
    memcpy(bytes + 8, text, strlen(text));
    float *data = (float *)(bytes + 8 + padded);
    for (size_t i = 0; i < count; data += elements_of(&shapes[i]), i++)
        fill(&shapes[i], data);
    free(text);
    json_decref(header);
    *size = 8 + padded + (size_t)data_bytes;
    return bytes;
}

struct weights *tensors_random(const struct tensor_shape *shapes, size_t count, void **file)
{
    struct weights *weights;
    struct error error;
    size_t size;
    *file = tensors_random_file(shapes, count, &size);
    if (weights_open_memory(*file, size, "random", &weights, &error) != 0) {
        fprintf(stderr, "%s\n", error.message);
        abort();
    }
    return weights;
}
