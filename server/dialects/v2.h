/* v2: the Open Inference Protocol with Triton's binary tensors. v2.c has the routes and everything that needs no run of
 * a model. v2_infer.c reads a call, with v2_inputs.c and v2_outputs.c. v2_plan.c writes the plan of a model, and
 * v2_attention.c draws its attention. v2_query.c reads the numbers in the URLs of these two routes. */
#ifndef SERVER_V2_H
#define SERVER_V2_H

#include "server/http/routes.h"

extern const struct dialect v2_dialect;

#endif
