/* tensors: checks the tensors of an inference request against the inputs of the model, and reads their values. */
#ifndef SERVER_DIALECTS_V2_TENSORS_H
#define SERVER_DIALECTS_V2_TENSORS_H

#include "server/dialects/items.h"
#include "server/dialects/v2/kinds.h"

/* Fails if the input does not accept the tensor, or if the number of its bytes does not agree with its shape. Here and
 * below, a failing function sets request->failure and returns -1, or NULL. */
int v2_tensor_check(struct request *request, const struct v2_tensor *tensor, const struct model_input *input);

/* Fails if a request may not contain a batch of `count` items. */
int v2_tensor_check_batch(struct request *request, int64_t count);

/* Returns the values of the tensor, in the type that the engine reads. If the body contains the values in this type,
 * the result points into the body. Otherwise it is request memory. The tensor must have passed v2_tensor_check. */
const void *v2_tensor_values(struct request *request, struct items_lists *lists, const struct v2_tensor *tensor,
                             const struct model_input *input);

/* Sets *tensor for a body without JSON. It is a batch of one item. The length of this item follows from the number of
 * bytes. */
int v2_tensor_raw(struct request *request, const struct model_input *input, struct v2_tensor *tensor);

#endif
