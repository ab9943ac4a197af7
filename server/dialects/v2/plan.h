/* plan: GET /v2/models/{}/plan returns the plan of a model as JSON. A plan is the list of operations that the engine
 * runs for a batch. Its numbers are those that --explain prints. */
#ifndef SERVER_DIALECTS_V2_PLAN_H
#define SERVER_DIALECTS_V2_PLAN_H

#include "server/http/routes.h"

enum outcome v2_plan(struct request *request);

#endif
