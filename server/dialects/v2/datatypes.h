/* datatypes: the protocol's datatypes, and the conversion of values to the types that the engine reads. These are
 * int32_t for ids, float, and uint8_t for masks. */
#ifndef SERVER_DIALECTS_V2_DATATYPES_H
#define SERVER_DIALECTS_V2_DATATYPES_H

#include "server/dialects/v2/kinds.h"
#include "server/http/request.h"

#include <jansson.h>

/* An element of a tensor, and its place for messages. */
struct v2_place {
    struct request *request;
    const struct v2_tensor *tensor;
    const struct model_input *input;
    int64_t index; /* index of the element in the tensor, as if the tensor had one dimension */
};

/* A row of the table of datatypes. A failing function sets request->failure and returns -1. */
struct v2_datatype {
    const char *name;
    int64_t bytes;       /* number of bytes of an element in the body */
    int64_t value_bytes; /* number of bytes of a value of the type that the engine reads */
    /* Converts one element. */
    int (*from_json)(const struct v2_place *place, const json_t *element, void *value);
    /* Converts `count` elements. NULL if the engine can read the bytes of the body without conversion. */
    int (*from_bytes)(struct v2_place *place, const char *bytes, int64_t count, void *values);
    /* Checks values that need no conversion. NULL if any bytes are valid values. */
    int (*check)(struct v2_place *place, const void *values, int64_t count);
};

/* The row of the table for a datatype. NULL if no input accepts the datatype. */
const struct v2_datatype *v2_datatype_find(const char *name);

#endif
