/* refusal: checks of a request's headers. framing.h has the checks that tell where a request ends. */
#ifndef SERVER_REFUSAL_H
#define SERVER_REFUSAL_H

#include "server/http/routes.h"

/* Checks path, method, API key and the headers that describe the body. OPTIONS of a known path passes, although it
 * matches no route. -1: request->failure. */
int refusal_of_headers(const struct route_match *match, struct request *request, const char *method);

/* Whether a body follows the headers. After framing_check. */
bool refusal_has_body(const struct request *request);

/* The body is larger than --payload-limit. Sets the failure and returns -1. */
int refusal_too_large(struct failure *failure, const struct settings *settings);

#endif
