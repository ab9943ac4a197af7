/* tensors: checks a call's tensors against the model's inputs, and reads their values. */
#ifndef SERVER_DIALECTS_V2_TENSORS_H
#define SERVER_DIALECTS_V2_TENSORS_H

#include "server/dialects/items.h"
#include "server/dialects/v2/kinds.h"

/* Checks that the input accepts the tensor, and that the number of its bytes agrees with its shape. Here and below, a
 * failing function sets request->failure and returns -1, or NULL. */
int v2_tensor_check(struct request *request, const struct v2_tensor *tensor, const struct model_input *input);

/* Checks that a request may have a batch of `count` items. */
int v2_tensor_check_batch(struct request *request, int64_t count);

/* Returns the values in the engine's form. If the body has this form, they stay in the body. Otherwise they are in
 * request memory. The tensor must have passed v2_tensor_check. */
const void *v2_tensor_values(struct request *request, struct items_lists *lists, const struct v2_tensor *tensor,
                             const struct model_input *input);

/* Sets the tensor of a call without JSON. It is a batch of one item, whose length follows from the number of bytes. */
int v2_tensor_raw(struct request *request, const struct model_input *input, struct v2_tensor *tensor);

#endif
