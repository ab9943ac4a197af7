/* limits: values for settings that are auto, from the memory and the models. */
#ifndef SERVER_LIMITS_H
#define SERVER_LIMITS_H

#include "engine/engine.h"

/* An image may have more tokens than a batch if its activations take at most this many bytes. 0: no image may, because
 * --max-batch-tokens has a value. `memory` is the machine's or the container's, in bytes. */
size_t limits_image_arena(const struct settings *settings, int64_t memory);

/* Sets max_batch_tokens if it is auto. To be called before the models are loaded. */
void limits_set_batch_tokens(struct settings *settings);

/* Sets payload_limit if it is auto; to be called when max_batch_tokens is set. The limit is the size of the longest
 * item of any model as JSON. If that is more than an eighth of the memory, it is the item's size as binary data, cut to
 * that eighth. The limit is at least LIMITS_PAYLOAD. */
#define LIMITS_PAYLOAD (INT64_C(32) << 20)
void limits_set_payload(struct settings *settings, struct model *const *models, int64_t n_models, int64_t memory);

#endif
