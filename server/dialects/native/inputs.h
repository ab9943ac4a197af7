/* inputs: makes the items of a job from the inputs of a body. Here and in other headers of this folder, a failing
 * function sets request->failure and returns -1. */
#ifndef SERVER_DIALECTS_NATIVE_INPUTS_H
#define SERVER_DIALECTS_NATIVE_INPUTS_H

#include "server/dialects/native/body.h"

/* Makes the items of the job. The first input of the items is `inputs`, `embeddings`, or a body that is a picture file.
 * The other inputs are in inputs->given. The caller must set the requested results of the items afterwards. */
int native_items(struct request *request, struct native_inputs *inputs);

/* Sets *base64 to whether the key encoding_format asks for base64. Refuses unknown formats. */
int native_encoding(struct request *request, const struct native_inputs *inputs, bool *base64);

/* Calls model_check for each item. The message of a failure names the item. */
int native_check(struct request *request, const struct native_inputs *inputs);

#endif
