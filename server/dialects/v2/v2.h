/* v2: the Open Inference Protocol, version 2, with Triton's binary tensors. v2.c contains the table of routes, and the
 * routes that run no model. infer.c is the route that runs a model. plan.c and attention.c are the routes for the plan
 * and for a picture of the attention. */
#ifndef SERVER_DIALECTS_V2_V2_H
#define SERVER_DIALECTS_V2_V2_H

#include "server/http/routes.h"

extern const struct dialect v2_dialect;

#endif
