/* v2_model: the model that a path names. */
#ifndef SERVER_DIALECTS_V2_MODEL_H
#define SERVER_DIALECTS_V2_MODEL_H

#include "server/http/request.h"

#define V2_VERSION "1" /* the one version of each model */

/* Finds the model of the path, and checks its version if the path names one. -1: request->failure. */
int v2_model(struct request *request);

#endif
