/* kinds: the protocol's view of each kind of input: its datatypes, its shape, and its place in an item. */
#ifndef SERVER_DIALECTS_V2_KINDS_H
#define SERVER_DIALECTS_V2_KINDS_H

#include "server/dialects/v2/shape.h"

#include <jansson.h>

/* A tensor of a call, as its entry declares it. `data` contains the values as JSON. If the values are binary data of
 * the body instead, `data` is NULL, and `bytes` points to them. */
struct v2_tensor {
    const char *name, *datatype;
    struct v2_shape shape;
    json_t *data;
    const char *bytes;
    int64_t n_bytes;
    const struct engine_input *texts; /* (batch): the ids of the texts, for datatype BYTES. Otherwise NULL */
};

#define V2_MOST_DATATYPES 4 /* of an input */

/* The name of the datatype with this index, from 0, among the datatypes that the input accepts. Metadata contains the
 * first one. NULL if the index is too large. */
const char *v2_input_datatype(const struct model_input *input, int index);

/* The shape that the input accepts. Some inputs accept several ranks, so the shape depends on the rank of the tensor.
 * For metadata, `rank` is 0. */
struct v2_shape v2_input_shape(const struct model_input *input, int rank);

/* Sets input `index` of an item. Its sizes are taken from the tensor's shape. */
void v2_input_place(const struct v2_tensor *tensor, const struct model_input *input, const char *values,
                    struct engine_item *item, int index);

#endif
