/* Fuzz target: the graph of a module, with its weights. The first byte of the input chooses the number of rows of an
 * item, from 1 to 16. Each size that the graph leaves open has this value. config.json begins in the second line.
 *
 * The key "tensors" of config.json describes the tensors to which the graph refers as "@NAME". A tensor has at most
 * 4096 elements. {"NAME": [sizes…]} describes floats. {"NAME": {"dtype": "I64", "shape": [sizes…], "data": [numbers…]}}
 * describes floats, integers or booleans. The numbers are repeated until the tensor is full. Without "data", the target
 * chooses the numbers.
 *
 * The engine builds the plan without the data of the weights, and then with the data. If it accepts the graph, and an
 * item is not too large, a batch of two equal items runs. Both results must have the same bits. If two items have too
 * many tokens, only one runs. */
#include "engine/engine.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ELEMENTS 4096 /* maximum number of elements of a tensor */
#define MAX_TENSORS 64
#define MAX_TOKENS 2048 /* maximum number of tokens of a batch */
#define MAX_OUTPUT (1 << 20)
#define MAX_FLOPS 3e8
#define ITEMS 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool holds)
{
    if (!holds)
        abort();
}

static struct engine *the_engine(void)
{
    static struct engine *engine;
    struct engine_options options = {.device = {DEVICE_CPU},
                                     .dtype = DTYPE_F32,
                                     .threads = 1,
                                     .max_batch_tokens = MAX_TOKENS,
                                     .max_batch_requests = ITEMS};
    struct error error;
    if (!engine)
        require(engine_open(&options, &engine, &error) == 0);
    return engine;
}

/* ---- The file of tensors ---- */

static int64_t elements_of(const json_t *shape)
{
    int64_t elements = 1;
    size_t i;
    const json_t *size;
    if (!json_is_array(shape) || json_array_size(shape) > WEIGHTS_MAX_RANK)
        return 0;
    json_array_foreach (shape, i, size) {
        json_int_t value = json_integer_value(size);
        if (value < 1 || value > MAX_ELEMENTS || (elements *= value) > MAX_ELEMENTS)
            return 0;
    }
    return elements;
}

static const struct {
    const char *name;
    int64_t bytes; /* bytes of an element */
} dtypes[] = {{"F32", 4}, {"I64", 8}, {"I32", 4}, {"BOOL", 1}};

/* Returns the index of the tensor's dtype in `dtypes`, or 0 if the dtype is unknown. */
static int dtype_of(const json_t *tensor)
{
    const char *name = json_string_value(json_object_get(tensor, "dtype"));
    int dtype = (int)(sizeof dtypes / sizeof *dtypes) - 1;
    while (dtype > 0 && (!name || strcmp(dtypes[dtype].name, name) != 0))
        dtype--;
    return dtype;
}

static const json_t *shape_of(const json_t *tensor)
{
    return json_is_object(tensor) ? json_object_get(tensor, "shape") : tensor;
}

/* Returns element i of a tensor: a number of its "data", or a number that suits its dtype if there is no "data". */
static double element_of(const json_t *tensor, int dtype, int64_t i)
{
    const json_t *data = json_object_get(tensor, "data");
    double made = dtype == 0 ? (double)((i * 7919) % 101) / 101.0 - 0.5 : (double)(i % 3);
    if (json_array_size(data) == 0)
        return made;
    return json_number_value(json_array_get(data, (size_t)i % json_array_size(data)));
}

static void write_element(char *bytes, int dtype, double number)
{
    double bounded = number > 1e9 ? 1e9 : number < -1e9 ? -1e9 : number;
    float value = (float)number;
    int64_t wide = (int64_t)bounded;
    int32_t narrow = (int32_t)bounded;
    if (dtype == 0)
        memcpy(bytes, &value, sizeof value);
    else if (dtype == 1)
        memcpy(bytes, &wide, sizeof wide);
    else if (dtype == 2)
        memcpy(bytes, &narrow, sizeof narrow);
    else
        bytes[0] = number != 0;
}

/* Returns the header of a safetensors file with these tensors. Sets *length to the number of bytes of their data. */
static json_t *make_header(const json_t *tensors, int64_t *length)
{
    json_t *header = json_object();
    const char *name;
    const json_t *tensor;
    *length = 0;
    json_object_foreach ((json_t *)tensors, name, tensor) {
        int64_t elements = elements_of(shape_of(tensor));
        int dtype = dtype_of(tensor);
        if (elements == 0 || json_object_size(header) >= MAX_TENSORS || strlen(name) >= 200)
            continue;
        int64_t end = *length + elements * dtypes[dtype].bytes;
        json_object_set_new(header, name,
                            json_pack("{s:s, s:O, s:[I, I]}", "dtype", dtypes[dtype].name, "shape", shape_of(tensor),
                                      "data_offsets", (json_int_t)*length, (json_int_t)end));
        *length = end;
    }
    return header;
}

/* Returns a safetensors file with these tensors, and sets *length to its number of bytes. The caller frees the file. */
static char *make_file(const json_t *tensors, size_t *length)
{
    int64_t data_length;
    json_t *header = make_header(tensors, &data_length), *entry;
    char *text = json_dumps(header, JSON_COMPACT);
    require(text);
    size_t text_length = strlen(text);
    *length = 8 + text_length + (size_t)data_length;
    char *bytes = calloc(1, *length), *place = bytes + 8 + text_length;
    require(bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)((uint64_t)text_length >> (8 * i));
    memcpy(bytes + 8, text, text_length);
    const char *name;
    json_object_foreach (header, name, entry) {
        const json_t *tensor = json_object_get(tensors, name);
        int dtype = dtype_of(tensor);
        int64_t elements = elements_of(shape_of(tensor));
        for (int64_t i = 0; i < elements; i++, place += dtypes[dtype].bytes)
            write_element(place, dtype, element_of(tensor, dtype, i));
    }
    require(place == bytes + *length);
    json_decref(header);
    free(text);
    return bytes;
}

/* ---- A batch ---- */

struct batch {
    struct engine_item items[ITEMS];
    struct engine_extra extras[ITEMS][16];
    void *inputs[ENGINE_MAX_INPUTS];
    float *outputs[ITEMS][16];
    int64_t elements[16];
    int n_outputs;
};

/* Returns the data of an input: the ids 0 and 1, small floats, or a mask of ones. */
static void *input_of(const struct model_input *input, int64_t elements)
{
    char *bytes = calloc((size_t)elements, 4);
    require(bytes);
    for (int64_t i = 0; i < elements; i++) {
        int32_t id = (int32_t)(i % 2);
        float value = (float)(i % 13) / 13.0f - 0.4f;
        if (input->kind == INPUT_IDS)
            memcpy(bytes + 4 * i, &id, sizeof id);
        else if (input->kind == INPUT_ROWS)
            memcpy(bytes + 4 * i, &value, sizeof value);
        else
            bytes[i] = 1;
    }
    return bytes;
}

/* Sets the inputs of the batch's first item. Returns false if the item is too large. */
static bool give_inputs(const struct model *model, int64_t rows, struct batch *batch)
{
    const struct model_info *info = model_info(model);
    struct engine_item *item = &batch->items[0];
    for (int i = 0; i < info->n_inputs; i++) {
        const struct model_input *input = &info->inputs[i];
        int64_t elements = rows * input->columns;
        item->inputs[i].length = rows;
        if (input->layout == LAYOUT_TENSOR) {
            elements = 1;
            for (int d = 0; d < input->rank; d++) {
                int64_t size = input->shape[d] < 0 ? rows : input->shape[d];
                if (size > MAX_OUTPUT || elements * size > MAX_OUTPUT)
                    return false;
                item->inputs[i].sizes[d] = size;
                elements *= size;
            }
        }
        if (elements > MAX_OUTPUT)
            return false;
        item->inputs[i].data = batch->inputs[i] = input_of(input, elements);
    }
    return true;
}

static bool want_outputs(const struct model *model, struct batch *batch)
{
    const struct model_info *info = model_info(model);
    batch->n_outputs = info->n_tensors > 0 ? info->n_tensors : 1;
    if (batch->n_outputs > 16)
        return false;
    for (int o = 0; o < batch->n_outputs; o++) {
        int64_t shape[ENGINE_MAX_RANK], elements = 1;
        int rank = model_output_shape(model, &batch->items[0], o, shape);
        for (int d = 0; d < rank; d++) {
            require(shape[d] >= 0);
            if (shape[d] > MAX_OUTPUT || (elements *= shape[d]) > MAX_OUTPUT)
                return false;
        }
        batch->elements[o] = elements;
        for (int b = 0; b < ITEMS; b++) {
            batch->outputs[b][o] = calloc((size_t)elements + 1, sizeof(float));
            require(batch->outputs[b][o]);
        }
    }
    for (int b = 0; b < ITEMS; b++) {
        memcpy(batch->items[b].inputs, batch->items[0].inputs, sizeof batch->items[b].inputs);
        batch->items[b].output = batch->outputs[b][0];
        batch->items[b].n_rows = info->n_tensors > 0 ? 0 : batch->elements[0] / info->output_columns;
        for (int o = 1; o < batch->n_outputs; o++)
            batch->extras[b][o - 1] = (struct engine_extra){.output = o, .data = batch->outputs[b][o]};
        batch->items[b].extras = batch->extras[b];
        batch->items[b].n_extras = batch->n_outputs - 1;
    }
    return true;
}

static void run(struct model *model, int64_t rows)
{
    struct error error;
    struct batch batch = {.n_outputs = 0};
    if (give_inputs(model, rows, &batch) && model_check(model, &batch.items[0], &error) == 0 &&
        model_item_flops(model, &batch.items[0]) < MAX_FLOPS && want_outputs(model, &batch)) {
        int64_t count = ITEMS * model_item_tokens(model, &batch.items[0]) <= MAX_TOKENS ? ITEMS : 1;
        require(model_run(model, 0, batch.items, count, &error) == 0);
        for (int o = 0; count == ITEMS && o < batch.n_outputs; o++)
            require(memcmp(batch.outputs[0][o], batch.outputs[1][o], (size_t)batch.elements[o] * sizeof(float)) == 0);
    }
    for (int i = 0; i < ENGINE_MAX_INPUTS; i++)
        free(batch.inputs[i]);
    for (int b = 0; b < ITEMS; b++)
        for (int o = 0; o < batch.n_outputs && o < 16; o++)
            free(batch.outputs[b][o]);
}

static void load(const struct model_config *config, const char *bytes, size_t length, int64_t rows)
{
    struct error error = {""};
    struct weights *weights;
    struct model *model;
    if (weights_open_memory(bytes, length, "input", &weights, &error) != 0)
        return;
    if (engine_load(the_engine(), config, weights, NULL, NULL, &model, &error) == 0) {
        run(model, rows);
        model_close(model);
    } else {
        require(error.message[0] != 0);
    }
    weights_close(weights);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *line = memchr(data, '\n', size);
    if (!line || line == data)
        return 0;
    struct model_config config = {.architecture = (char *)"module"};
    const char *text = (const char *)line + 1;
    json_t *json = json_loadb(text, size - (size_t)(line + 1 - data), JSON_REJECT_DUPLICATES, NULL);
    config.graph = json_object_get(json, "graph");
    config.ignore = json_pack("[s]", "*");
    if (json_is_object(config.graph)) {
        size_t length;
        char *bytes = make_file(json_object_get(json, "tensors"), &length);
        load(&config, bytes, length, 1 + data[0] % 16);
        free(bytes);
    }
    json_decref(config.ignore);
    json_decref(json);
    return 0;
}
