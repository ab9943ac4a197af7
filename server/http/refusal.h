/* refusal: checks the headers of a request. framing.h declares the checks that concern the end of a request. */
#ifndef SERVER_REFUSAL_H
#define SERVER_REFUSAL_H

#include "server/http/routes.h"

/* Checks path, method, API key and the headers that describe the body. OPTIONS passes for a known path, although it
 * matches no route. If a check fails, sets request->failure and returns -1. */
int refusal_of_headers(const struct route_match *match, struct request *request, const char *method);

/* Whether a body follows the headers. Call it after framing_check. */
bool refusal_has_body(const struct request *request);

/* Sets the failure of a body that is larger than --payload-limit. Always returns -1. */
int refusal_too_large(struct failure *failure, const struct settings *settings);

#endif
