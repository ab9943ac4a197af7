#include "server/dialects/v2/tensors.h"

#include "server/dialects/v2/datatypes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHAPE_TEXT 128
#define DATATYPES_TEXT 64

/* ---- Declared and expected ---- */

static int check_datatype(struct request *request, const struct v2_tensor *tensor, const struct model_input *input)
{
    char wanted[DATATYPES_TEXT] = "";
    for (int i = 0; v2_input_datatype(input, i); i++) {
        const char *datatype = v2_input_datatype(input, i);
        size_t length = strlen(wanted);
        if (strcmp(datatype, tensor->datatype) == 0)
            return 0;
        snprintf(wanted + length, sizeof wanted - length, "%s%s",
                 i == 0                            ? ""
                 : v2_input_datatype(input, i + 1) ? ", "
                                                   : " or ",
                 datatype);
    }
    return failure_set(&request->failure, FAILURE_INVALID, "input \"%.100s\" has datatype %.20s, %s was expected",
                       tensor->name, tensor->datatype, wanted);
}

static int check_shape(struct request *request, const struct v2_tensor *tensor, const struct model_input *input)
{
    struct v2_shape wanted = v2_input_shape(input, tensor->shape.rank);
    const struct v2_shape *found = &tensor->shape;
    bool fits = found->rank == wanted.rank;
    char found_text[SHAPE_TEXT], wanted_text[SHAPE_TEXT];
    for (int d = 0; fits && d < wanted.rank; d++)
        fits = wanted.sizes[d] < 0 || found->sizes[d] == wanted.sizes[d];
    if (fits)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "input \"%.100s\" has shape %s, %s was expected",
                       tensor->name, weights_shape_text(found->rank, found->sizes, found_text, sizeof found_text),
                       weights_shape_text(wanted.rank, wanted.sizes, wanted_text, sizeof wanted_text));
}

int v2_tensor_check(struct request *request, const struct v2_tensor *tensor, const struct model_input *input)
{
    if (input->refused)
        return failure_set(&request->failure, FAILURE_INVALID, "input \"%.100s\" is not accepted: %s", tensor->name,
                           input->refused);
    if (input->kind == INPUT_IGNORED)
        return 0;
    if (check_datatype(request, tensor, input) != 0 || check_shape(request, tensor, input) != 0)
        return -1;
    const struct v2_datatype *datatype = v2_datatype_find(tensor->datatype);
    assert(datatype); /* the input accepts the datatype, so the table contains it */
    int64_t count = v2_count(&tensor->shape);
    char text[SHAPE_TEXT];
    weights_shape_text(tensor->shape.rank, tensor->shape.sizes, text, sizeof text);
    /* A shape must not cause a large allocation if the request contains less data. An element of JSON has at least one
     * byte. */
    if (tensor->data && (count < 0 || count > (int64_t)request->body_length))
        return failure_set(&request->failure, FAILURE_INVALID, "input \"%.100s\" has less data than shape %s requires",
                           tensor->name, text);
    if (!tensor->data && (count < 0 || tensor->n_bytes != count * datatype->bytes))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "input \"%.100s\" has %" PRId64 " bytes of data, which does not match %s with shape %s",
                           tensor->name, tensor->n_bytes, tensor->datatype, text);
    return 0;
}

int v2_tensor_check_batch(struct request *request, int64_t count)
{
    int64_t limit = request->service->options.settings->max_client_batch_size;
    if (count >= 1 && count <= limit)
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID,
                       "the batch has %" PRId64 " items, 1 to %" PRId64 " were expected", count, limit);
}

int v2_tensor_raw(struct request *request, const struct model_input *input, struct v2_tensor *tensor)
{
    const struct v2_shape wanted = v2_input_shape(input, 0);
    const char *datatype = v2_input_datatype(input, 0);
    int64_t row = v2_datatype_find(datatype)->bytes;
    for (int d = 2; d < wanted.rank; d++)
        row *= wanted.sizes[d];
    if (input->layout != LAYOUT_SEQUENCE)
        return failure_set(
            &request->failure, FAILURE_INVALID,
            "Inference-Header-Content-Length is 0, but the bytes alone do not determine the shape of input \"%s\"",
            input->name);
    if (tensor->n_bytes % row != 0)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "input \"%s\" has %" PRId64 " bytes of data, which is not a multiple of the %" PRId64
                           " bytes of a row",
                           input->name, tensor->n_bytes, row);
    tensor->name = input->name;
    tensor->datatype = datatype;
    tensor->shape = wanted;
    tensor->shape.sizes[0] = 1;
    tensor->shape.sizes[1] = tensor->n_bytes / row;
    return 0;
}

/* ---- Values ---- */

static int wrong_count(const struct v2_place *place, size_t found, int64_t wanted)
{
    const struct v2_shape *shape = &place->tensor->shape;
    char text[SHAPE_TEXT];
    return failure_set(&place->request->failure, FAILURE_INVALID,
                       "input \"%.100s\": data has a list of %zu values where shape %s requires %" PRId64,
                       place->tensor->name, found, weights_shape_text(shape->rank, shape->sizes, text, sizeof text),
                       wanted);
}

/* Reads a list of `count` numbers. The first of them is element place->index of the tensor. */
static int read_numbers(struct v2_place *place, const struct v2_datatype *datatype, const json_t *list, int64_t count,
                        char *values)
{
    if ((int64_t)json_array_size(list) != count)
        return wrong_count(place, json_array_size(list), count);
    for (int64_t i = 0; i < count; i++, place->index++) {
        const json_t *element = json_array_get(list, (size_t)i);
        if (datatype->from_json(place, element, values + place->index * datatype->value_bytes) != 0)
            return -1;
    }
    return 0;
}

/* Reads the nested lists of the dimensions from `d` on. The lists must be nested as the shape says. */
static int read_nested(struct v2_place *place, const struct v2_datatype *datatype, const json_t *list, int d,
                       char *values)
{
    const struct v2_shape *shape = &place->tensor->shape;
    if (!json_is_array(list))
        return failure_set(&place->request->failure, FAILURE_INVALID,
                           "input \"%.100s\": data has %s where a list was expected", place->tensor->name,
                           json_kind(list));
    if (d == shape->rank - 1)
        return read_numbers(place, datatype, list, shape->sizes[d], values);
    if ((int64_t)json_array_size(list) != shape->sizes[d])
        return wrong_count(place, json_array_size(list), shape->sizes[d]);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (read_nested(place, datatype, json_array_get(list, i), d + 1, values) != 0)
            return -1;
    }
    return 0;
}

/* One tensor while its `data` is read. */
struct tensor_reading {
    struct v2_place place;
    int64_t count;
    void *values; /* (count): the values that were read, in the type that the engine reads */
};

/* Reads `data`, which is one list of all values, or lists that are nested as the shape says. */
static int values_from_json(void *context, const json_t *data)
{
    struct tensor_reading *reading = context;
    struct v2_place *place = &reading->place;
    const struct v2_datatype *datatype = v2_datatype_find(place->tensor->datatype);
    reading->values = request_take(place->request, reading->count, (size_t)datatype->value_bytes);
    if (!reading->values)
        return -1;
    if (json_is_array(json_array_get(data, 0)))
        return read_nested(place, datatype, data, 0, reading->values);
    return read_numbers(place, datatype, data, reading->count, reading->values);
}

/* Reads lists of numbers. Returns 0 for wrong values. values_from_json refuses these, and its message names their
 * place. */
static int values_from_numbers(void *context, const struct numbers *numbers)
{
    struct tensor_reading *reading = context;
    const struct v2_place *place = &reading->place;
    const struct v2_shape *shape = &place->tensor->shape;
    struct numbers_target target = {.below = place->input->vocabulary};
    bool ids = place->input->kind == INPUT_IDS, floats = strcmp(place->tensor->datatype, "FP32") == 0;
    if (numbers->count != reading->count || (!ids && !floats) || (numbers->depth != 1 && numbers->depth != shape->rank))
        return 0;
    for (int d = 0; d < numbers->depth; d++)
        target.sizes[d] = numbers->depth == 1 ? reading->count : shape->sizes[d];
    reading->values = request_take(place->request, reading->count, sizeof(float));
    if (!reading->values)
        return -1;
    target.ids = ids ? reading->values : NULL;
    target.floats = ids ? NULL : reading->values;
    return numbers_read(numbers, &target);
}

static const void *values_from_bytes(struct v2_place *place, int64_t count)
{
    const struct v2_datatype *datatype = v2_datatype_find(place->tensor->datatype);
    struct request *request = place->request;
    const char *bytes = place->tensor->bytes;
    bool aligned = (uintptr_t)bytes % (size_t)datatype->value_bytes == 0;
    void *values = NULL;
    if (datatype->from_bytes || !aligned) {
        values = request_take(request, count, (size_t)datatype->value_bytes);
        if (!values)
            return NULL;
    }
    if (datatype->from_bytes)
        return datatype->from_bytes(place, bytes, count, values) == 0 ? values : NULL;
    if (aligned)
        request->body_kept = true;
    else
        memcpy(values, bytes, (size_t)(count * datatype->value_bytes));
    const void *found = aligned ? (const void *)bytes : values;
    return !datatype->check || datatype->check(place, found, count) == 0 ? found : NULL;
}

const void *v2_tensor_values(struct request *request, struct items_lists *lists, const struct v2_tensor *tensor,
                             const struct model_input *input)
{
    static const struct items_readers readers = {values_from_numbers, values_from_json};
    if (input->kind == INPUT_IGNORED)
        return "";
    struct tensor_reading reading = {.place = {.request = request, .tensor = tensor, .input = input},
                                     .count = v2_count(&tensor->shape)};
    if (!tensor->data)
        return values_from_bytes(&reading.place, reading.count);
    return items_read(request, lists, tensor->data, &readers, &reading) == 0 ? reading.values : NULL;
}
