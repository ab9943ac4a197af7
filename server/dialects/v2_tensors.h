/* v2_tensors: checks a call's tensors against the model's inputs, and reads their values. */
#ifndef SERVER_DIALECTS_V2_TENSORS_H
#define SERVER_DIALECTS_V2_TENSORS_H

#include "server/dialects/items.h"
#include "server/dialects/v2_kinds.h"

/* Checks that the input takes such a tensor, and that its bytes are as many as its shape says. -1: request->failure. */
int v2_tensor_check(struct request *request, const struct v2_tensor *tensor, const struct model_input *input);

/* Checks that a request may have a batch of `count` items. -1: request->failure. */
int v2_tensor_check_batch(struct request *request, int64_t count);

/* Returns the values in the engine's form. They are in the body if it has that form, else in request memory. The tensor
 * passed v2_tensor_check. NULL: request->failure. */
const void *v2_tensor_values(struct request *request, struct items_lists *lists, const struct v2_tensor *tensor,
                             const struct model_input *input);

/* Declares the tensor of a call without JSON: a batch of one item, with the length that its bytes make. -1:
 * request->failure. */
int v2_tensor_raw(struct request *request, const struct model_input *input, struct v2_tensor *tensor);

#endif
