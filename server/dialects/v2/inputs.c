/* inputs: checks every count before it allocates memory for that count. */
#include "server/dialects/v2/inputs.h"

#include "server/dialects/v2/datatypes.h"
#include "server/dialects/v2/entry.h"
#include "server/dialects/v2/texts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct option input_options[] = {
    {"name", OPTION_STRING, offsetof(struct v2_entry, name)},
    {"shape", OPTION_LIST, offsetof(struct v2_entry, shape)},
    {"datatype", OPTION_STRING, offsetof(struct v2_entry, datatype)},
    {"parameters", OPTION_OBJECT, offsetof(struct v2_entry, parameters)},
    {"data", OPTION_LIST, offsetof(struct v2_entry, data)},
};

/* A name that litellm uses for an input that contains texts, whatever name the model has for its input of ids. */
#define TEXTS_NAME "input_text"

static bool names_texts(const struct v2_entry *entry, const struct model_input *first)
{
    return first->kind == INPUT_IDS && entry->datatype && strcmp(entry->datatype, "BYTES") == 0 &&
           strcmp(entry->name, TEXTS_NAME) == 0;
}

/* The index of the entry's input among the inputs of the model. On failure sets request->failure and returns -1. */
static int input_index(struct request *request, const struct v2_entry *entry)
{
    const struct model_info *info = request->info;
    char names[160] = "";
    for (int i = 0; i < info->n_inputs; i++) {
        size_t length = strlen(names);
        if (strcmp(info->inputs[i].name, entry->name) == 0)
            return i;
        snprintf(names + length, sizeof names - length, "%s\"%s\"", i > 0 ? ", " : "", info->inputs[i].name);
    }
    if (names_texts(entry, &info->inputs[0]))
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "input \"%.100s\" is unknown; model \"%s\" has %s",
                       entry->name, request_model_name(request), names);
}

static int read_shape(struct request *request, const struct v2_entry *entry, struct v2_shape *shape)
{
    struct failure *failure = &request->failure;
    if (!entry->shape)
        return failure_set(failure, FAILURE_INVALID, "input \"%.100s\" has no shape", entry->name);
    if (json_array_size(entry->shape) > V2_MAX_RANK)
        return failure_set(failure, FAILURE_INVALID,
                           "input \"%.100s\": shape has %zu dimensions, at most %d are supported", entry->name,
                           json_array_size(entry->shape), V2_MAX_RANK);
    shape->rank = (int)json_array_size(entry->shape);
    for (int d = 0; d < shape->rank; d++) {
        const json_t *size = json_array_get(entry->shape, (size_t)d);
        shape->sizes[d] = json_integer_value(size);
        if (!json_is_integer(size) || shape->sizes[d] < 0)
            return failure_set(failure, FAILURE_INVALID, "input \"%.100s\": shape[%d] is not an integer of at least 0",
                               entry->name, d);
    }
    return 0;
}

/* Sets tensor->data to the key `data`, or tensor->bytes to the next binary_data_size bytes of the binary data. */
static int read_source(struct v2_inputs *inputs, const struct v2_entry *entry, struct v2_tensor *tensor)
{
    struct failure *failure = &inputs->request->failure;
    const json_t *size = json_object_get(entry->parameters, "binary_data_size");
    if (json_object_get(entry->parameters, "shared_memory_region"))
        return failure_set(failure, FAILURE_INVALID, "input \"%.100s\": shared memory is not supported", entry->name);
    if (entry->data && size)
        return failure_set(failure, FAILURE_INVALID,
                           "input \"%.100s\": both data and binary_data_size are given, one was expected", entry->name);
    if (!entry->data && !size)
        return failure_set(failure, FAILURE_INVALID,
                           "input \"%.100s\": neither data nor parameter binary_data_size is given", entry->name);
    tensor->data = entry->data;
    if (entry->data)
        return 0;
    if (!json_is_integer(size) || json_integer_value(size) < 0)
        return failure_set(failure, FAILURE_INVALID,
                           "input \"%.100s\": binary_data_size is not an integer of at least 0", entry->name);
    if (json_integer_value(size) > inputs->n_bytes)
        return failure_set(
            failure, FAILURE_INVALID,
            "input \"%.100s\": binary_data_size is %lld, but only %" PRId64
            " %s left after the JSON part of Inference-Header-Content-Length bytes and the data of earlier inputs",
            entry->name, (long long)json_integer_value(size), inputs->n_bytes,
            inputs->n_bytes == 1 ? "byte is" : "bytes are");
    tensor->bytes = inputs->bytes;
    tensor->n_bytes = json_integer_value(size);
    inputs->bytes += tensor->n_bytes;
    inputs->n_bytes -= tensor->n_bytes;
    return 0;
}

static int read_input(struct v2_inputs *inputs, size_t position, const json_t *json)
{
    struct request *request = inputs->request;
    struct v2_entry entry;
    if (v2_entry_read(request, "inputs", position, json, input_options, OPTION_COUNT(input_options), &entry) != 0)
        return -1;
    int index = input_index(request, &entry);
    if (index < 0)
        return -1;
    struct v2_tensor *tensor = &inputs->tensors[index];
    if (tensor->name)
        return failure_set(&request->failure, FAILURE_INVALID, "input \"%s\" is given twice", entry.name);
    if (!entry.datatype)
        return failure_set(&request->failure, FAILURE_INVALID, "input \"%s\" has no datatype", entry.name);
    tensor->name = entry.name;
    tensor->datatype = entry.datatype;
    if (read_shape(request, &entry, &tensor->shape) != 0 || read_source(inputs, &entry, tensor) != 0)
        return -1;
    if (v2_texts_are_given(tensor, &request->info->inputs[index]))
        return v2_texts_read(request, &inputs->options, tensor, index);
    if (v2_tensor_check(request, tensor, &request->info->inputs[index]) != 0)
        return -1;
    inputs->values[index] = v2_tensor_values(request, &inputs->lists, tensor, &request->info->inputs[index]);
    return inputs->values[index] ? 0 : -1;
}

int v2_inputs_read(struct v2_inputs *inputs, const json_t *list)
{
    struct failure *failure = &inputs->request->failure;
    if (!list)
        return failure_set(failure, FAILURE_INVALID, "inputs is missing, a list was expected");
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (read_input(inputs, i, json_array_get(list, i)) != 0)
            return -1;
    }
    if (inputs->n_bytes > 0)
        return failure_set(failure, FAILURE_INVALID, "%" PRId64 " %s left after the data of the inputs",
                           inputs->n_bytes, inputs->n_bytes == 1 ? "byte is" : "bytes are");
    return 0;
}

int v2_inputs_read_raw(struct v2_inputs *inputs)
{
    const struct model_input *input = &inputs->request->info->inputs[0];
    struct v2_tensor *tensor = &inputs->tensors[0];
    tensor->bytes = inputs->bytes;
    tensor->n_bytes = inputs->n_bytes;
    if (v2_tensor_raw(inputs->request, input, tensor) != 0)
        return -1;
    inputs->values[0] = v2_tensor_values(inputs->request, &inputs->lists, tensor, input);
    return inputs->values[0] ? 0 : -1;
}

/* Sets *count to the number of items. This is the size of the batch dimension, which must be the same for all inputs.
 * If the first input has LAYOUT_CALL, the whole request is one item. */
static int count_items(struct v2_inputs *inputs, int64_t *count)
{
    struct request *request = inputs->request;
    const struct model_info *info = request->info;
    const struct v2_tensor *first = NULL;
    *count = 1;
    if (info->inputs[0].layout == LAYOUT_CALL)
        return 0;
    for (int i = 0; i < info->n_inputs; i++) {
        const struct v2_tensor *tensor = &inputs->tensors[i];
        if (!tensor->name || info->inputs[i].kind == INPUT_IGNORED)
            continue;
        first = first ? first : tensor;
        *count = tensor->shape.sizes[0];
        if (*count != first->shape.sizes[0])
            return failure_set(&request->failure, FAILURE_INVALID,
                               "input \"%s\" has a batch of %" PRId64 ", but input \"%s\" has a batch of %" PRId64
                               ": equal batches were expected",
                               tensor->name, *count, first->name, first->shape.sizes[0]);
    }
    return v2_tensor_check_batch(request, *count);
}

static void fill_item(const struct v2_inputs *inputs, int64_t number)
{
    const struct model_info *info = inputs->request->info;
    struct engine_item *item = &inputs->request->job.items[number];
    for (int i = 0; i < info->n_inputs; i++) {
        const struct v2_tensor *tensor = &inputs->tensors[i];
        const char *values = inputs->values[i];
        if (tensor->texts)
            item->inputs[i] = tensor->texts[number];
        if (!values)
            continue;
        if (info->inputs[i].kind != INPUT_IGNORED)
            values += number * v2_elements(&tensor->shape, 1) * v2_datatype_find(tensor->datatype)->value_bytes;
        v2_input_place(tensor, &info->inputs[i], values, item, i);
    }
}

int v2_inputs_place(struct v2_inputs *inputs)
{
    struct request *request = inputs->request;
    struct job *job = &request->job;
    if (count_items(inputs, &job->n_items) != 0)
        return -1;
    job->items = request_memory(request, job->n_items, sizeof *job->items);
    if (!job->items)
        return -1;
    for (int64_t b = 0; b < job->n_items; b++) {
        fill_item(inputs, b);
        struct error error;
        if (model_check(request_engine_model(request), &job->items[b], &error) != 0)
            return failure_set(&request->failure, FAILURE_INVALID, "%s", error.message);
    }
    return 0;
}
