/* statistics: counts and times of the requests and batches of models, in the format of Triton's statistics
 * extension. */
#ifndef SERVER_DIALECTS_V2_STATISTICS_H
#define SERVER_DIALECTS_V2_STATISTICS_H

#include "server/http/routes.h"

enum outcome v2_statistics(struct request *request);
enum outcome v2_statistics_all(struct request *request);

#endif
