/* generate: what POST / needs to know about /generate. */
#ifndef SERVER_DIALECTS_NATIVE_GENERATE_H
#define SERVER_DIALECTS_NATIVE_GENERATE_H

#include "server/http/routes.h"

#include <jansson.h>

/* Whether a body of POST / is a request to generate. In text-generation-inference, POST / is such a route. The body of
 * such a request has a key `stream`. If the model generates, a key `parameters` is enough. */
bool native_wants_generation(const struct request *request, const json_t *body);

/* Reads a body of POST / as a request to generate. The answer is a list with one element, unless it is streamed. */
enum outcome native_generate_root(struct request *request, bool streamed);

#endif
