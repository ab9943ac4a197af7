#include "server/dialects/v2/datatypes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "binary tensors are little-endian, and read in place");

#define PLACE_TEXT 128

/* Writes the indices of the element in its tensor, such as "[1][5]". Returns `text`. */
static const char *place_text(const struct v2_place *place, char text[PLACE_TEXT])
{
    const struct v2_shape *shape = &place->tensor->shape;
    int64_t indexes[V2_MAX_RANK], index = place->index;
    size_t length = 0;
    for (int d = shape->rank - 1; d >= 0; d--) {
        indexes[d] = index % shape->sizes[d];
        index /= shape->sizes[d];
    }
    for (int d = 0; d < shape->rank; d++)
        length += (size_t)snprintf(text + length, PLACE_TEXT - length, "[%" PRId64 "]", indexes[d]);
    return text;
}

static int refuse_kind(const struct v2_place *place, const json_t *value, const char *wanted)
{
    char text[PLACE_TEXT];
    return failure_set(&place->request->failure, FAILURE_INVALID, "input \"%.100s\"%s is %s, %s was expected",
                       place->tensor->name, place_text(place, text), json_kind(value), wanted);
}

static int check_id(const struct v2_place *place, int64_t id)
{
    int64_t vocabulary = place->input->vocabulary;
    if (id >= 0 && id < vocabulary)
        return 0;
    char text[PLACE_TEXT];
    return failure_set(&place->request->failure, FAILURE_INVALID,
                       "input \"%.100s\"%s is %" PRId64 "; ids of model \"%s\" are %sbelow %" PRId64,
                       place->tensor->name, place_text(place, text), id, request_model_name(place->request),
                       id < 0 ? "at least 0 and " : "", vocabulary);
}

static int id_from_json(const struct v2_place *place, const json_t *number, void *value)
{
    int64_t id = json_integer_value(number);
    if (!json_is_integer(number))
        return refuse_kind(place, number, "an integer id");
    *(int32_t *)value = (int32_t)id;
    return check_id(place, id);
}

static int ids_from_int64(struct v2_place *place, const char *bytes, int64_t count, void *values)
{
    int32_t *ids = values;
    for (place->index = 0; place->index < count; place->index++) {
        int64_t id;
        memcpy(&id, bytes + place->index * (int64_t)sizeof id, sizeof id);
        if (check_id(place, id) != 0)
            return -1;
        ids[place->index] = (int32_t)id;
    }
    return 0;
}

static int check_ids(struct v2_place *place, const void *values, int64_t count)
{
    const int32_t *ids = values;
    for (place->index = 0; place->index < count; place->index++) {
        if (check_id(place, ids[place->index]) != 0)
            return -1;
    }
    return 0;
}

static int check_float(const struct v2_place *place, double value)
{
    if (isfinite((float)value))
        return 0;
    char text[PLACE_TEXT];
    return failure_set(&place->request->failure, FAILURE_INVALID,
                       "input \"%.100s\"%s is %g, a finite 32 bit float was expected", place->tensor->name,
                       place_text(place, text), value);
}

static int float_from_json(const struct v2_place *place, const json_t *number, void *value)
{
    if (!json_is_number(number))
        return refuse_kind(place, number, "a number");
    *(float *)value = (float)json_number_value(number);
    return check_float(place, json_number_value(number));
}

/* Refuses floats that are not finite, except in a mask that is added to scores, which may contain -infinity. */
static int check_floats(struct v2_place *place, const void *values, int64_t count)
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

/* Converts FP16 or BF16 to float. The conversion is exact. */
static int floats_from_halves(struct v2_place *place, const char *bytes, int64_t count, void *values)
{
    const struct weights_tensor tensor = {
        .dtype = strcmp(place->tensor->datatype, "FP16") == 0 ? WEIGHTS_F16 : WEIGHTS_BF16,
        .data = bytes,
        .elements = count,
    };
    weights_to_f32(&tensor, values);
    return check_floats(place, values, count);
}

/* Refuses numbers in JSON for FP16 and BF16, as Triton does. */
static int half_from_json(const struct v2_place *place, const json_t *number, void *value)
{
    (void)number;
    (void)value;
    return failure_set(&place->request->failure, FAILURE_INVALID,
                       "input \"%.100s\": data in JSON cannot be %s: send binary data, or the datatype FP32",
                       place->tensor->name, place->tensor->datatype);
}

static int mask_from_json(const struct v2_place *place, const json_t *boolean, void *value)
{
    if (!json_is_boolean(boolean))
        return refuse_kind(place, boolean, "true or false");
    *(uint8_t *)value = json_is_true(boolean);
    return 0;
}

static const struct v2_datatype datatypes[] = {
    {"INT64", 8, sizeof(int32_t), id_from_json, ids_from_int64, NULL},
    {"INT32", 4, sizeof(int32_t), id_from_json, NULL, check_ids},
    {"FP32", 4, sizeof(float), float_from_json, NULL, check_floats},
    {"FP16", 2, sizeof(float), half_from_json, floats_from_halves, NULL},
    {"BF16", 2, sizeof(float), half_from_json, floats_from_halves, NULL},
    {"BOOL", 1, sizeof(uint8_t), mask_from_json, NULL, NULL},
};

const struct v2_datatype *v2_datatype_find(const char *name)
{
    for (size_t i = 0; i < sizeof datatypes / sizeof datatypes[0]; i++) {
        if (strcmp(datatypes[i].name, name) == 0)
            return &datatypes[i];
    }
    return NULL;
}
