/* generate: lets POST / do the same as /generate. */
#ifndef SERVER_DIALECTS_NATIVE_GENERATE_H
#define SERVER_DIALECTS_NATIVE_GENERATE_H

#include "server/http/routes.h"

#include <jansson.h>

/* Whether a body of POST / is a request to generate text, as in text-generation-inference. The key `stream` must be
 * true or false. If the model can generate, a `stream` of any other kind or an object `parameters` is enough. */
bool native_wants_generation(const struct request *request, const json_t *body);

/* The `read` function of POST / for a request to generate. If the answer is not streamed, it is a list with one
 * element. */
enum outcome native_generate_root(struct request *request, bool streamed);

#endif
