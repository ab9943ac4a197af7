/* model: the model that a path names. */
#ifndef SERVER_DIALECTS_V2_MODEL_H
#define SERVER_DIALECTS_V2_MODEL_H

#include "server/http/request.h"

#define V2_VERSION "1" /* every model has only this version */
#define V2_PLATFORM "linformerd_safetensors"

/* Finds the model of the path. If the path names a version, checks the version. On failure sets request->failure and
 * returns -1. */
int v2_model(struct request *request);

#endif
