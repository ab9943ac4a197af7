/* v2: the Open Inference Protocol with Triton's binary tensors. v2.c has the routes and everything that needs no run of
 * a model. infer.c reads a call, with inputs.c and outputs.c. plan.c writes the plan of a model, and
 * attention.c draws its attention. query.c reads the numbers in the URLs of these two routes. */
#ifndef SERVER_DIALECTS_V2_V2_H
#define SERVER_DIALECTS_V2_V2_H

#include "server/http/routes.h"

extern const struct dialect v2_dialect;

#endif
