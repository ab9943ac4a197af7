/* describe: describes a model. The metadata have the format of the Open Inference Protocol. The configuration has the
 * format of Triton's ModelConfig as JSON (model_config.proto). */
#ifndef SERVER_DIALECTS_V2_DESCRIBE_H
#define SERVER_DIALECTS_V2_DESCRIBE_H

#include "server/http/routes.h"

enum outcome v2_describe(struct request *request);
enum outcome v2_describe_config(struct request *request);

#endif
