/* limits: the settings that say auto, which follow from the memory and from the models. */
#ifndef SERVER_LIMITS_H
#define SERVER_LIMITS_H

#include "engine/engine.h"

/* Bytes of activations up to which an image may be larger than a batch; 0: never, for --max-batch-tokens has a value.
 * `memory` is that of the machine, or of the container. */
size_t limits_image_arena(const struct settings *settings, int64_t memory);

/* Gives max_batch_tokens a value. Before the models are loaded. */
void limits_set_batch_tokens(struct settings *settings);

/* Gives payload_limit a value, once max_batch_tokens has one: the longest item of any model, as a client would write it
 * in JSON, or else in binary, each up to an eighth of the memory, at least LIMITS_PAYLOAD. */
#define LIMITS_PAYLOAD (INT64_C(32) << 20)
void limits_set_payload(struct settings *settings, struct model *const *models, int64_t n_models, int64_t memory);

#endif
