/* datatypes: the protocol's datatypes, and the conversion of values to the engine's form: int32_t ids, floats, and
 * bytes of a mask. */
#ifndef SERVER_DIALECTS_V2_DATATYPES_H
#define SERVER_DIALECTS_V2_DATATYPES_H

#include "server/dialects/v2/kinds.h"
#include "server/http/request.h"

#include <jansson.h>

/* The place of an element, for messages. */
struct v2_place {
    struct request *request;
    const struct v2_tensor *tensor;
    const struct model_input *input;
    int64_t index; /* index of the element */
};

/* A row of the table of datatypes. On failure the functions set request->failure and return -1. */
struct v2_datatype {
    const char *name;
    int64_t bytes;       /* bytes of an element in the body */
    int64_t value_bytes; /* bytes of a value in the engine's form */
    /* Converts one element. */
    int (*from_json)(const struct v2_place *place, const json_t *element, void *value);
    /* Converts `count` elements. NULL if the bytes of the body already have the engine's form. */
    int (*from_bytes)(struct v2_place *place, const char *bytes, int64_t count, void *values);
    /* Checks values that needed no conversion. NULL if all values are valid. */
    int (*check)(struct v2_place *place, const void *values, int64_t count);
};

/* Returns NULL for a datatype that no input accepts. */
const struct v2_datatype *v2_datatype_find(const char *name);

#endif
