/* inputs: makes the items of a job from the inputs of a body. Here and in other headers of this folder, a failing
 * function sets request->failure and returns -1. */
#ifndef SERVER_DIALECTS_NATIVE_INPUTS_H
#define SERVER_DIALECTS_NATIVE_INPUTS_H

#include "server/dialects/native/body.h"

/* Makes the job's items. Their first input comes from `inputs` or `embeddings`, or from the body if the body is the
 * file of a picture. Their other inputs come from `given`. The route must then say which results it wants. */
int native_items(struct request *request, struct native_inputs *inputs);

/* Finds out whether the vectors of the answer are written as base64. */
int native_encoding(struct request *request, const struct native_inputs *inputs, bool *base64);

/* Calls model_check for each item. The message names the input. */
int native_check(struct request *request, const struct native_inputs *inputs);

#endif
