/* plan: GET /v2/models/{}/plan, the plan of a model as JSON. It has the numbers of --explain. */
#ifndef SERVER_DIALECTS_V2_PLAN_H
#define SERVER_DIALECTS_V2_PLAN_H

#include "server/http/routes.h"

enum outcome v2_plan(struct request *request);

#endif
