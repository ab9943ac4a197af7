/* openapi: GET /openapi.json returns the OpenAPI description of all routes. The description is openapi.json in this
 * folder. The build includes openapi.json in the binary. */
#ifndef SERVER_DIALECTS_OPENAPI_H
#define SERVER_DIALECTS_OPENAPI_H

#include "server/http/routes.h"

/* The bytes of openapi.json, without a final NUL. Sets *length to their number. */
const char *openapi_text(size_t *length);

enum outcome openapi_read(struct request *request);

#endif
