/* Fuzz target: any bytes, read as a safetensors file. If the input begins with "{", its first line is the header, and
 * the rest is the data. The target then puts the length of the header in front, so that a fuzzer need not guess the
 * length. The same bytes are also read as the index of a checkpoint of several files. An accepted file must be usable.
 * Each tensor lies within the bytes, all tensors together cover the data, and each tensor can be found by name and
 * converted. */
#include "weights/shard_index.h"
#include "weights/weights.h"

#include <stdlib.h>
#include <string.h>

#define LENGTH_BYTES 8
#define MAX_CONVERTED 65536 /* maximum number of elements of a tensor that is converted */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Checks and converts a tensor. Returns its number of bytes. */
static size_t use_tensor(const struct weights *weights, size_t index, const uint8_t *data, size_t size)
{
    const struct weights_tensor *tensor = weights_at(weights, index);
    const uint8_t *begin = tensor->data;
    require(begin >= data && tensor->bytes <= size && (size_t)(begin - data) <= size - tensor->bytes);
    require((size_t)tensor->elements * weights_dtype_size(tensor->dtype) == tensor->bytes);
    require(weights_find(weights, tensor->name) == tensor && weights_index(weights, tensor) == index);
    char text[16];
    require(weights_shape_text(tensor->rank, tensor->shape, text, sizeof text)[0] == '[');
    if (tensor->elements <= MAX_CONVERTED) {
        float *values = malloc((size_t)tensor->elements * sizeof *values + 1);
        require(values != NULL);
        weights_to_f32(tensor, values);
        free(values);
    }
    return tensor->bytes;
}

static void open_file(const uint8_t *data, size_t size)
{
    struct error error = {""};
    struct weights *weights;
    if (weights_open_memory(data, size, "input", &weights, &error) != 0) {
        require(strncmp(error.message, "input: ", 7) == 0);
        return;
    }
    size_t header = 0, used = 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        header = header << 8 | data[i];
    for (size_t i = 0; i < weights_count(weights); i++)
        used += use_tensor(weights, i, data, size);
    require(LENGTH_BYTES + header + used == size);
    weights_close(weights);
}

static void parse_index(const char *text, size_t size)
{
    struct error error = {""};
    struct shard_index index;
    if (shard_index_parse(text, size, &index, &error) != 0) {
        require(error.message[0] != '\0' && !index.json && !index.files);
        return;
    }
    require(index.n_files >= 1 && index.n_files <= json_object_size(index.weight_map));
    for (size_t i = 0; i < index.n_files; i++) {
        require(index.files[i][0] != '\0' && index.files[i][0] != '.' && !strchr(index.files[i], '/'));
        require(i == 0 || strcmp(index.files[i - 1], index.files[i]) < 0);
    }
    shard_index_free(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse_index((const char *)data, size);
    if (size < 2 || data[0] != '{' || data[1] == 0) {
        open_file(data, size);
        return 0;
    }
    const uint8_t *line_break = memchr(data, '\n', size);
    size_t header = line_break ? (size_t)(line_break - data) + 1 : size;
    uint8_t *file = malloc(LENGTH_BYTES + size);
    require(file);
    for (int i = 0; i < LENGTH_BYTES; i++)
        file[i] = (uint8_t)((uint64_t)header >> (8 * i));
    memcpy(file + LENGTH_BYTES, data, size);
    open_file(file, LENGTH_BYTES + size);
    free(file);
    return 0;
}
