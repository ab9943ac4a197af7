/* v2_kinds: the protocol's view of each kind of input: its datatypes, its shape, and its place in an item. */
#ifndef SERVER_DIALECTS_V2_KINDS_H
#define SERVER_DIALECTS_V2_KINDS_H

#include "server/dialects/v2_shape.h"

#include <jansson.h>

/* A tensor of a call, as declared. `data` has its values, or NULL if they are among the body's bytes. */
struct v2_tensor {
    const char *name, *datatype;
    struct v2_shape shape;
    json_t *data;
    const char *bytes;
    int64_t n_bytes;
    const struct engine_input *texts; /* (batch) ids of texts, for datatype BYTES; else NULL */
};

/* The name of a datatype that the input takes. Index 0 is the one in metadata. NULL: there is no other. */
const char *v2_input_datatype(const struct model_input *input, int index);

/* The shape that the input takes. Some inputs take several ranks, so the rank of the tensor matters; 0 in metadata. */
struct v2_shape v2_input_shape(const struct model_input *input, int rank);

/* Sets input `index` of an item: its values, and its sizes from the tensor's shape. */
void v2_input_place(const struct v2_tensor *tensor, const struct model_input *input, const char *values,
                    struct engine_item *item, int index);

#endif
