/* v2_tensors: the protocol's datatypes, in one table, and values from JSON and from bytes. */
#include "server/dialects/native.h"
#include "server/dialects/v2.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "binary tensors are little-endian, and read in place");

#define SHAPE_TEXT 128
#define PLACE_TEXT 128

/* ---- The protocol's datatypes ---- */

/* Where a value stands, for messages. */
struct place {
    struct request *request;
    const struct v2_tensor *tensor;
    const struct model_input *input;
    int64_t index; /* of the element */
};

struct datatype {
    const char *name;
    int64_t bytes;                                                                  /* of an element */
    int64_t value_bytes;                                                            /* of one as the engine takes it */
    int (*from_json)(const struct place *place, const json_t *number, void *value); /* one element */
    int (*from_bytes)(struct place *place, const char *bytes, int64_t count, void *out); /* NULL: they are values */
    int (*check)(struct place *place, const void *values, int64_t count); /* of values in place; NULL: any will do */
};

/* "[1][5]" of an element. Returns buffer. */
static const char *place_text(const struct place *place, char buffer[PLACE_TEXT])
{
    const struct v2_shape *shape = &place->tensor->shape;
    int64_t steps[V2_MAX_RANK], index = place->index;
    size_t length = 0;

    for (int d = shape->rank - 1; d >= 0; d--) {
        steps[d] = index % shape->sizes[d];
        index /= shape->sizes[d];
    }
    for (int d = 0; d < shape->rank; d++)
        length += (size_t)snprintf(buffer + length, PLACE_TEXT - length, "[%" PRId64 "]", steps[d]);
    return buffer;
}

static int refuse_kind(const struct place *place, const json_t *value, const char *wanted)
{
    char text[PLACE_TEXT];

    return failure_set(&place->request->failure, FAILURE_INVALID, "input \"%.100s\"%s is %s, %s was expected",
                       place->tensor->name, place_text(place, text), json_kind(value), wanted);
}

static int check_id(const struct place *place, int64_t id)
{
    int64_t vocabulary = place->input->vocabulary;
    char text[PLACE_TEXT];

    if (id >= 0 && id < vocabulary)
        return 0;
    return failure_set(&place->request->failure, FAILURE_INVALID,
                       "input \"%.100s\"%s is %" PRId64 "; ids of model \"%s\" are %sbelow %" PRId64,
                       place->tensor->name, place_text(place, text), id, request_model_name(place->request),
                       id < 0 ? "at least 0 and " : "", vocabulary);
}

static int id_from_json(const struct place *place, const json_t *number, void *value)
{
    int64_t id = json_integer_value(number);

    if (!json_is_integer(number))
        return refuse_kind(place, number, "an integer id");
    *(int32_t *)value = (int32_t)id;
    return check_id(place, id);
}

static int ids_from_int64(struct place *place, const char *bytes, int64_t count, void *out)
{
    int32_t *ids = out;

    for (place->index = 0; place->index < count; place->index++) {
        int64_t id;

        memcpy(&id, bytes + place->index * (int64_t)sizeof id, sizeof id);
        if (check_id(place, id))
            return -1;
        ids[place->index] = (int32_t)id;
    }
    return 0;
}

static int check_ids(struct place *place, const void *values, int64_t count)
{
    const int32_t *ids = values;

    for (place->index = 0; place->index < count; place->index++) {
        if (check_id(place, ids[place->index]))
            return -1;
    }
    return 0;
}

static int check_float(const struct place *place, double value)
{
    char text[PLACE_TEXT];

    if (isfinite((float)value))
        return 0;
    return failure_set(&place->request->failure, FAILURE_INVALID,
                       "input \"%.100s\"%s is %g, a finite 32 bit float was expected", place->tensor->name,
                       place_text(place, text), value);
}

static int float_from_json(const struct place *place, const json_t *number, void *value)
{
    if (!json_is_number(number))
        return refuse_kind(place, number, "a number");
    *(float *)value = (float)json_number_value(number);
    return check_float(place, json_number_value(number));
}

/* A mask that is added to scores hides with -infinity. */
static int check_floats(struct place *place, const void *values, int64_t count)
{
    const float *floats = values;

    if (place->input->kind == INPUT_ATTENTION_MASK)
        return 0;
    for (place->index = 0; place->index < count; place->index++) {
        if (!isfinite(floats[place->index]))
            return check_float(place, (double)floats[place->index]);
    }
    return 0;
}

static int mask_from_json(const struct place *place, const json_t *boolean, void *value)
{
    if (!json_is_boolean(boolean))
        return refuse_kind(place, boolean, "true or false");
    *(uint8_t *)value = json_is_true(boolean);
    return 0;
}

static const struct datatype datatypes[] = {
    {"INT64", 8, sizeof(int32_t), id_from_json, ids_from_int64, NULL},
    {"INT32", 4, sizeof(int32_t), id_from_json, NULL, check_ids},
    {"FP32", 4, sizeof(float), float_from_json, NULL, check_floats},
    {"BOOL", 1, sizeof(uint8_t), mask_from_json, NULL, NULL},
};

static const struct datatype *datatype_find(const char *name)
{
    for (size_t i = 0; i < sizeof datatypes / sizeof datatypes[0]; i++) {
        if (strcmp(datatypes[i].name, name) == 0)
            return &datatypes[i];
    }
    return NULL;
}

int64_t v2_value_bytes(const struct v2_tensor *tensor)
{
    const struct datatype *datatype = datatype_find(tensor->datatype);

    return datatype ? datatype->value_bytes : 1; /* what is ignored may be of any */
}

void v2_write_shape(struct writer *writer, const struct v2_shape *shape)
{
    for (int d = 0; d < shape->rank; d++) {
        writer_text(writer, d > 0 ? "," : "[");
        writer_integer(writer, shape->sizes[d]);
    }
    writer_text(writer, "]");
}

/* ---- Declared and expected ---- */

static int check_datatype(struct request *request, const struct v2_tensor *tensor, const struct model_input *input)
{
    const char *first = v2_input_datatype(input, 0), *second = v2_input_datatype(input, 1);

    if (strcmp(first, tensor->datatype) == 0 || (second && strcmp(second, tensor->datatype) == 0))
        return 0;
    return failure_set(&request->failure, FAILURE_INVALID, "input \"%.100s\" has datatype %.20s, %s%s%s was expected",
                       tensor->name, tensor->datatype, first, second ? " or " : "", second ? second : "");
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

int64_t v2_elements(const struct v2_shape *shape, int first)
{
    int64_t count = 1;

    for (int d = first; d < shape->rank; d++)
        count *= shape->sizes[d];
    return count;
}

/* -1: more than an int64_t holds, in elements or in bytes of any datatype. */
static int64_t count_elements(const struct v2_shape *shape)
{
    int64_t count = 1;

    for (int d = 0; d < shape->rank; d++) {
        if (__builtin_mul_overflow(count, shape->sizes[d], &count))
            return -1;
    }
    return count > INT64_MAX / 16 ? -1 : count;
}

int v2_tensor_check(struct request *request, const struct v2_tensor *tensor, const struct model_input *input)
{
    const struct datatype *datatype = datatype_find(tensor->datatype);
    int64_t count;
    char text[SHAPE_TEXT];

    if (input->refused) /* no shape would help */
        return failure_set(&request->failure, FAILURE_INVALID, "input \"%.100s\" is given: %s", tensor->name,
                           input->refused);
    if (input->kind == INPUT_IGNORED)
        return 0;
    if (check_datatype(request, tensor, input) || check_shape(request, tensor, input))
        return -1;
    assert(datatype); /* since an input takes it */
    count = count_elements(&tensor->shape);
    weights_shape_text(tensor->shape.rank, tensor->shape.sizes, text, sizeof text);
    /* An element of JSON takes a byte at least: this bounds the memory that a shape alone can ask for. */
    if (tensor->data && (count < 0 || count > (int64_t)request->body_length))
        return failure_set(&request->failure, FAILURE_INVALID, "input \"%.100s\" has less data than shape %s says",
                           tensor->name, text);
    if (!tensor->data && (count < 0 || tensor->n_bytes != count * datatype->bytes))
        return failure_set(&request->failure, FAILURE_INVALID,
                           "input \"%.100s\" has %" PRId64 " bytes of data, which is not what %s with shape %s takes",
                           tensor->name, tensor->n_bytes, tensor->datatype, text);
    return 0;
}

int v2_tensor_raw(struct request *request, const struct model_input *input, struct v2_tensor *tensor)
{
    const struct v2_shape wanted = v2_input_shape(input, 0);
    const char *datatype = v2_input_datatype(input, 0);
    int64_t row = datatype_find(datatype)->bytes;

    for (int d = 2; d < wanted.rank; d++)
        row *= wanted.sizes[d];
    if (input->layout != LAYOUT_SEQUENCE)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "Inference-Header-Content-Length is 0, but bytes alone don't tell the shape of input \"%s\"",
                           input->name);
    if (tensor->n_bytes % row != 0)
        return failure_set(&request->failure, FAILURE_INVALID,
                           "input \"%s\" has %" PRId64 " bytes of data, which is no multiple of the %" PRId64
                           " bytes that a row takes",
                           input->name, tensor->n_bytes, row);
    tensor->name = input->name;
    tensor->datatype = datatype;
    tensor->shape = wanted;
    tensor->shape.sizes[0] = 1;
    tensor->shape.sizes[1] = tensor->n_bytes / row;
    return 0;
}

/* ---- Values ---- */

static int wrong_count(const struct place *place, size_t found, int64_t wanted)
{
    char text[SHAPE_TEXT];
    const struct v2_shape *shape = &place->tensor->shape;

    return failure_set(&place->request->failure, FAILURE_INVALID,
                       "input \"%.100s\": data has a list of %zu values where shape %s means %" PRId64,
                       place->tensor->name, found, weights_shape_text(shape->rank, shape->sizes, text, sizeof text),
                       wanted);
}

/* A list of `count` numbers, from place->index on. */
static int read_numbers(struct place *place, const struct datatype *datatype, const json_t *list, int64_t count,
                        char *values)
{
    if ((int64_t)json_array_size(list) != count)
        return wrong_count(place, json_array_size(list), count);
    for (int64_t i = 0; i < count; i++, place->index++) {
        if (datatype->from_json(place, json_array_get(list, (size_t)i), values + place->index * datatype->value_bytes))
            return -1;
    }
    return 0;
}

/* Lists within lists, as the shape has them from dimension d on. */
static int read_nested(struct place *place, const struct datatype *datatype, const json_t *list, int d, char *values)
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
        if (read_nested(place, datatype, json_array_get(list, i), d + 1, values))
            return -1;
    }
    return 0;
}

/* Flat, or lists within lists as the shape has them. A failure need not say why. */
static const void *values_from_numbers(struct place *place, int64_t count)
{
    const struct numbers *numbers = place->tensor->numbers;
    const struct v2_shape *shape = &place->tensor->shape;
    struct numbers_target target = {.below = place->input->vocabulary};
    bool ids = place->input->kind == INPUT_IDS, floats = strcmp(place->tensor->datatype, "FP32") == 0;
    void *values;

    if (numbers->count != count || (!ids && !floats) || (numbers->depth != 1 && numbers->depth != shape->rank))
        return NULL;
    for (int d = 0; d < numbers->depth; d++)
        target.sizes[d] = numbers->depth == 1 ? count : shape->sizes[d];
    values = native_input_memory(place->request, count, sizeof(float));
    target.ids = ids ? values : NULL;
    target.floats = ids ? NULL : values;
    return values && numbers_read(numbers, &target) ? values : NULL;
}

static const void *values_from_json(struct place *place, const struct datatype *datatype, int64_t count)
{
    const json_t *data = place->tensor->data;
    char *values = native_input_memory(place->request, count, (size_t)datatype->value_bytes);
    int result;

    if (!values)
        return NULL;
    if (json_is_array(json_array_get(data, 0)))
        result = read_nested(place, datatype, data, 0, values);
    else
        result = read_numbers(place, datatype, data, count, values);
    return result == 0 ? values : NULL;
}

static const void *values_from_bytes(struct place *place, const struct datatype *datatype, int64_t count)
{
    struct request *request = place->request;
    const char *bytes = place->tensor->bytes;
    bool aligned = (uintptr_t)bytes % (size_t)datatype->value_bytes == 0;
    void *values = NULL;

    if (datatype->from_bytes || !aligned) {
        values = native_input_memory(request, count, (size_t)datatype->value_bytes);
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

const void *v2_tensor_values(struct request *request, const struct v2_tensor *tensor, const struct model_input *input)
{
    const struct datatype *datatype = datatype_find(tensor->datatype);
    struct place place = {.request = request, .tensor = tensor, .input = input};

    if (input->kind == INPUT_IGNORED)
        return "";
    int64_t count = count_elements(&tensor->shape);

    if (tensor->numbers)
        return values_from_numbers(&place, count);
    return tensor->data ? values_from_json(&place, datatype, count) : values_from_bytes(&place, datatype, count);
}
