/* v2: the Open Inference Protocol, version 2, with Triton's binary tensors. v2.c contains the table of routes, and the
 * routes about the server and its list of models. infer.c runs a model. describe.c, statistics.c, plan.c and
 * attention.c contain the other routes. */
#ifndef SERVER_DIALECTS_V2_V2_H
#define SERVER_DIALECTS_V2_V2_H

#include "server/http/routes.h"

extern const struct dialect v2_dialect;

#endif
