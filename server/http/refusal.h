/* refusal: what is wrong with a request before its body was read. Where it ends is framing.h's matter. */
#ifndef SERVER_REFUSAL_H
#define SERVER_REFUSAL_H

#include "server/http/routes.h"

/* Path, method, API key and the headers that describe the body. OPTIONS of a known path is fine though it matches no
 * route. -1: request->failure. */
int refusal_of_headers(const struct route_match *match, struct request *request, const char *method);

/* Whether a body follows the headers, whose framing is certain. */
bool refusal_has_body(const struct request *request);

int refusal_too_large(struct failure *failure, const struct settings *settings);

#endif
