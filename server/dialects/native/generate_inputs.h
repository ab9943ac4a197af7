/* generate_inputs: inputs of a model that a request names as forward() does, beside the input that is the sequence.
 * These inputs are rows of floats, such as `context`, and masks of rows, such as `context_mask`. */
#ifndef SERVER_DIALECTS_NATIVE_GENERATE_INPUTS_H
#define SERVER_DIALECTS_NATIVE_GENERATE_INPUTS_H

#include "server/http/routes.h"

#include <jansson.h>

/* Values of the keys. NULL if the request lacks the key. */
struct generate_inputs {
    json_t *context, *context_mask, *embeddings;
};

/* Entries of a table of options. `member` is the struct generate_inputs within the struct that the table fills. */
#define GENERATE_INPUT_OPTIONS(type, member)                                \
    {"context", OPTION_JSON, offsetof(type, member.context)},               \
        {"context_mask", OPTION_JSON, offsetof(type, member.context_mask)}, \
    {                                                                       \
        "embeddings", OPTION_JSON, offsetof(type, member.embeddings)        \
    }

/* Refuses lists of these keys that are too long, before jansson makes an object of each element. Here and below, a
 * failing function sets request->failure and returns -1. */
int generate_inputs_check(struct request *request);

/* Reads the given inputs into `item`, in the request's memory. Refuses an input that the model does not have.
 * model_check finds missing inputs and wrong lengths. */
int generate_inputs_read(struct request *request, const struct generate_inputs *named, struct engine_item *item);

#endif
