/* inputs: converts the `inputs` of a call to the items of its job. */
#ifndef SERVER_DIALECTS_V2_INPUTS_H
#define SERVER_DIALECTS_V2_INPUTS_H

#include "server/dialects/text_inputs.h"
#include "server/dialects/v2/tensors.h"

/* The inputs while they are read. The caller sets `request`, `bytes`, `n_bytes`, `lists` and `options`. */
struct v2_inputs {
    struct request *request;
    struct text_inputs_options options; /* what the request says about its texts */
    const char *bytes;                  /* binary data of the tensors that are not read yet */
    int64_t n_bytes;
    struct items_lists lists; /* the lists of the JSON that are not parsed yet */
    struct v2_tensor tensors[ENGINE_MAX_INPUTS];
    const void *values[ENGINE_MAX_INPUTS]; /* NULL for an input that the call does not contain */
};

/* Fills tensors and values from the list `inputs`, which is NULL if the call has no such list. Here and below, a
 * failing function sets request->failure and returns -1. */
int v2_inputs_read(struct v2_inputs *inputs, const json_t *list);

/* Like v2_inputs_read, for a body without JSON. All bytes of the body belong to the model's first input. */
int v2_inputs_read_raw(struct v2_inputs *inputs);

/* Makes the items of the job from tensors and values. */
int v2_inputs_place(struct v2_inputs *inputs);

#endif
