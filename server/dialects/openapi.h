/* openapi: GET /openapi.json returns the description of all routes. Its source is openapi.json in this folder, which is
 * a part of the binary. */
#ifndef SERVER_DIALECTS_OPENAPI_H
#define SERVER_DIALECTS_OPENAPI_H

#include "server/http/routes.h"

/* The description, without a final NUL. */
const char *openapi_text(size_t *length);

enum outcome openapi_read(struct request *request);

#endif
