/* long_model: writes the folder of a linformer_pytorch.Linformer with random weights, for sequences of INPUT_SIZE rows.
 * Also writes the file `request`: a sequence of random rows, as the raw body of a call of /v2.
 *
 *     long_model INPUT_SIZE FOLDER */
#include "tests/unit/tensors.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 2, CHANNELS = 64, HEADS = 4, DIM_D = 16, DIM_K = 128, DIM_FF = 256, MAX_SHAPES = 128, NAME = 64 };

struct shapes {
    struct tensor_shape all[MAX_SHAPES];
    char names[MAX_SHAPES][2 * NAME];
    size_t count;
};

static FILE *file;
static char path[4096];

static void must(bool good)
{
    if (good)
        return;
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    exit(1);
}

static void open_file(const char *folder, const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "wb");
    must(file);
}

/* Writes random floats, uniformly distributed from -scale to scale. */
static void write_floats(int64_t count, float scale)
{
    float block[4096];
    for (int64_t done = 0; done < count;) {
        size_t n = count - done < 4096 ? (size_t)(count - done) : 4096;
        for (size_t i = 0; i < n; i++)
            block[i] = random_float() * scale;
        must(fwrite(block, sizeof *block, n, file) == n);
        done += (int64_t)n;
    }
}

/* ---- The model ---- */

static void add(struct shapes *shapes, int layer, const char *name, int64_t rows, int64_t columns)
{
    snprintf(shapes->names[shapes->count], sizeof *shapes->names, "seq.%d.%s", layer, name);
    shapes->all[shapes->count] = (struct tensor_shape){shapes->names[shapes->count], rows, columns};
    shapes->count++;
}

/* Lists the stored tensors. With parameter_sharing "layerwise", all E and F share one weight and one bias. */
static void list_shapes(struct shapes *shapes, int64_t input_size)
{
    static const char *const projections[] = {"to_q", "to_k", "to_v"};
    char name[NAME];
    add(shapes, 0, "fn.heads.0.E.weight", DIM_K, input_size);
    add(shapes, 0, "fn.heads.0.E.bias", 0, DIM_K);
    for (int layer = 0; layer < 2 * DEPTH; layer += 2) {
        for (int p = 0; p < 3; p++)
            for (int h = 0; h < HEADS; h++) {
                snprintf(name, sizeof name, "fn.%s.%d.weight", projections[p], h);
                add(shapes, layer, name, DIM_D, CHANNELS);
            }
        add(shapes, layer, "fn.w_o.weight", CHANNELS, HEADS * DIM_D);
        add(shapes, layer, "fn.w_o.bias", 0, CHANNELS);
        add(shapes, layer, "norm.weight", 0, CHANNELS);
        add(shapes, layer, "norm.bias", 0, CHANNELS);
        add(shapes, layer + 1, "fn.w_1.weight", DIM_FF, CHANNELS);
        add(shapes, layer + 1, "fn.w_1.bias", 0, DIM_FF);
        add(shapes, layer + 1, "fn.w_2.weight", CHANNELS, DIM_FF);
        add(shapes, layer + 1, "fn.w_2.bias", 0, CHANNELS);
        add(shapes, layer + 1, "norm.weight", 0, CHANNELS);
        add(shapes, layer + 1, "norm.bias", 0, CHANNELS);
    }
}

/* Returns the other names of the shared weight and the shared bias, in the form in which save_model records them. */
static json_t *describe_shared(void)
{
    static const char *const parts[] = {"weight", "bias"};
    json_t *metadata = json_object();
    for (int i = 0; i < DEPTH * HEADS * 2 * 2; i++) {
        char name[NAME], stored[NAME];
        const char *part = parts[i % 2];
        snprintf(name, sizeof name, "seq.%d.fn.heads.%d.%c.%s", i / (4 * HEADS) * 2, i / 4 % HEADS,
                 i / 2 % 2 ? 'F' : 'E', part);
        snprintf(stored, sizeof stored, "seq.0.fn.heads.0.E.%s", part);
        if (strcmp(name, stored) != 0)
            json_object_set_new(metadata, name, json_string(stored));
    }
    return metadata;
}

static int64_t elements_of(const struct tensor_shape *shape)
{
    return shape->columns * (shape->rows ? shape->rows : 1);
}

static void write_header(const struct shapes *shapes)
{
    json_t *header = json_pack("{s:o}", "__metadata__", describe_shared());
    json_int_t offset = 0;
    for (size_t i = 0; i < shapes->count; i++) {
        const struct tensor_shape *shape = &shapes->all[i];
        json_int_t end = offset + elements_of(shape) * 4;
        json_t *sizes = shape->rows ? json_pack("[I, I]", (json_int_t)shape->rows, (json_int_t)shape->columns)
                                    : json_pack("[I]", (json_int_t)shape->columns);
        json_object_set_new(
            header, shape->name,
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", sizes, "data_offsets", offset, end));
        offset = end;
    }
    char *text = json_dumps(header, JSON_COMPACT);
    uint64_t length = strlen(text);
    must(fwrite(&length, sizeof length, 1, file) == 1 && fwrite(text, length, 1, file) == 1);
    free(text);
    json_decref(header);
}

/* The matrices keep the variance of their input. The gains of the norms are about 1, as at the beginning of
 * training. */
static void write_model(const char *folder, int64_t input_size)
{
    static struct shapes shapes;
    list_shapes(&shapes, input_size);
    open_file(folder, "model.safetensors");
    write_header(&shapes);
    for (size_t i = 0; i < shapes.count; i++) {
        const struct tensor_shape *shape = &shapes.all[i];
        if (strstr(shape->name, "norm.weight")) {
            float gain[CHANNELS];
            for (int c = 0; c < CHANNELS; c++)
                gain[c] = 1 + 0.1f * random_float();
            must(fwrite(gain, sizeof gain, 1, file) == 1);
        } else {
            write_floats(elements_of(shape), shape->rows ? sqrtf(3 / (float)shape->columns) : 0.1f);
        }
    }
    must(fclose(file) == 0);
}

static void write_config(const char *folder, int64_t input_size)
{
    open_file(folder, "config.json");
    must(fprintf(
             file,
             "{\"architecture\": \"linformer_pytorch.Linformer\", \"kwargs\": {\"input_size\": %lld, \"depth\": %d, "
             "\"channels\": %d, \"nhead\": %d, \"dim_d\": %d, \"dim_k\": %d, \"parameter_sharing\": \"layerwise\"}}\n",
             (long long)input_size, DEPTH, CHANNELS, HEADS, DIM_D, DIM_K) > 0);
    must(fclose(file) == 0);
}

int main(int argc, char **argv)
{
    int64_t input_size = argc == 3 ? atoll(argv[1]) : 0;
    if (input_size < 1) {
        fprintf(stderr, "usage: long_model INPUT_SIZE FOLDER\n");
        return 2;
    }
    write_config(argv[2], input_size);
    write_model(argv[2], input_size);
    open_file(argv[2], "request");
    write_floats(input_size * CHANNELS, 1);
    must(fclose(file) == 0);
    return 0;
}
