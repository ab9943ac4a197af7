/* limits: computes the values of settings that are auto, from the memory and the models. */
#ifndef SERVER_LIMITS_H
#define SERVER_LIMITS_H

#include "engine/engine.h"

/* Returns the maximum arena of an image in bytes. An image may have more tokens than a batch if its intermediate
 * results need at most this memory. Returns 0 if --max-batch-tokens is not auto, because no image may then have more
 * tokens. `memory` is the memory of the machine or of the container, in bytes. */
size_t limits_image_arena(const struct settings *settings, int64_t memory);

/* Sets max_batch_tokens if it is auto. Call it before the models are loaded. */
void limits_set_batch_tokens(struct settings *settings);

/* Sets payload_limit if it is auto. Call it after max_batch_tokens was set. The limit is the size of the longest item
 * of any model as JSON. If this size is more than an eighth of the memory, the limit is the item's size as binary data,
 * but at most an eighth of the memory. The limit is at least LIMITS_PAYLOAD. */
#define LIMITS_PAYLOAD (INT64_C(32) << 20)
void limits_set_payload(struct settings *settings, struct model *const *models, int64_t n_models, int64_t memory);

#endif
