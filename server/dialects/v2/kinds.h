/* kinds: for each kind of input, the datatypes and the shape that the protocol uses, and the conversion of a tensor to
 * an item's input. */
#ifndef SERVER_DIALECTS_V2_KINDS_H
#define SERVER_DIALECTS_V2_KINDS_H

#include "server/dialects/v2/shape.h"

#include <jansson.h>

/* A tensor of an inference request, as its entry declares it. The values are JSON in `data`, or binary data of the body
 * at `bytes`. `data` is NULL if they are binary data. */
struct v2_tensor {
    const char *name, *datatype;
    struct v2_shape shape;
    json_t *data;
    const char *bytes;
    int64_t n_bytes;
    const struct engine_input *texts; /* (batch): the ids of the texts if the datatype is BYTES. Otherwise NULL */
};

#define V2_MAX_DATATYPES 4 /* maximum number of datatypes that an input accepts */

/* The name of the datatype number `index`, from 0, among those that the input accepts. NULL if there are fewer. The
 * first datatype is in the metadata. */
const char *v2_input_datatype(const struct model_input *input, int index);

/* The shape that the input accepts. It depends on `rank`, the rank of the tensor, if the input accepts several ranks.
 * For the metadata, `rank` is 0. */
struct v2_shape v2_input_shape(const struct model_input *input, int rank);

/* Sets input `index` of an item to `values`. The sizes are those of the tensor's shape. */
void v2_input_place(const struct v2_tensor *tensor, const struct model_input *input, const char *values,
                    struct engine_item *item, int index);

#endif
