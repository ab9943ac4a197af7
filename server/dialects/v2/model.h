/* model: finds the model that the path of a request names. */
#ifndef SERVER_DIALECTS_V2_MODEL_H
#define SERVER_DIALECTS_V2_MODEL_H

#include "server/http/request.h"

#define V2_VERSION "1" /* the only version of every model */
#define V2_PLATFORM "linformerd_safetensors"

/* Sets the request's model to the model of the path. Fails if the model is unknown, or if the path names another
 * version than V2_VERSION. On failure sets request->failure and returns -1. */
int v2_model(struct request *request);

#endif
