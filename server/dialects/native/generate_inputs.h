/* generate_inputs: reads the inputs of a model that are not the sequence to be continued. They are rows of floats, such
 * as `context`, and masks of rows, such as `context_mask`. The keys are the names of parameters of forward(). */
#ifndef SERVER_DIALECTS_NATIVE_GENERATE_INPUTS_H
#define SERVER_DIALECTS_NATIVE_GENERATE_INPUTS_H

#include "server/http/routes.h"

#include <jansson.h>

/* Values of the keys of a request. NULL if a key is absent. */
struct generate_inputs {
    json_t *context, *context_mask, *embeddings;
};

/* Entries of a table of options for these keys. `type` is the struct that the table fills, and `member` is its struct
 * generate_inputs. */
#define GENERATE_INPUT_OPTIONS(type, member)                                \
    {"context", OPTION_JSON, offsetof(type, member.context)},               \
        {"context_mask", OPTION_JSON, offsetof(type, member.context_mask)}, \
    {                                                                       \
        "embeddings", OPTION_JSON, offsetof(type, member.embeddings)        \
    }

/* Refuses lists of these keys that are too long. Call it before jansson parses the body. Here and below, a failing
 * function sets request->failure and returns -1. */
int generate_inputs_check(struct request *request);

/* Reads the inputs of the request into `item`, in request memory. Refuses an input that the model does not have.
 * Missing inputs and wrong lengths are left to model_check. */
int generate_inputs_read(struct request *request, const struct generate_inputs *named, struct engine_item *item);

#endif
