/* inputs: converts the `inputs` of an inference request to the items of its job. */
#ifndef SERVER_DIALECTS_V2_INPUTS_H
#define SERVER_DIALECTS_V2_INPUTS_H

#include "server/dialects/text_inputs.h"
#include "server/dialects/v2/tensors.h"

/* The inputs of a request while they are read. The caller sets `request`, `bytes`, `n_bytes`, `lists` and `options`. */
struct v2_inputs {
    struct request *request;
    struct text_inputs_options options; /* options of the request for the encoding of its texts */
    const char *bytes;                  /* (n_bytes): the binary data of the tensors that have not been read yet */
    int64_t n_bytes;
    struct items_lists lists; /* the lists of numbers of the body that jansson has not parsed */
    struct v2_tensor tensors[ENGINE_MAX_INPUTS];
    const void *values[ENGINE_MAX_INPUTS]; /* the values of each input, in the type that the engine reads. NULL for an
                                              absent input */
};

/* Sets inputs->tensors and inputs->values from `list`, the value of the key `inputs`. `list` is NULL if this key is
 * absent. Here and below, a failing function sets request->failure and returns -1. */
int v2_inputs_read(struct v2_inputs *inputs, const json_t *list);

/* Like v2_inputs_read, for a body without JSON. The whole body is the value of the model's first input. */
int v2_inputs_read_raw(struct v2_inputs *inputs);

/* Makes the items of the job from inputs->tensors and inputs->values. */
int v2_inputs_place(struct v2_inputs *inputs);

#endif
