/* v2_infer: one call of a model, from its body to a job, and its answer. The items of the batch dimension run in any
 * batches of the batcher. Their results are written one after another, and so form the output tensors. */
#ifndef SERVER_DIALECTS_V2_INFER_H
#define SERVER_DIALECTS_V2_INFER_H

#include "server/http/routes.h"

enum outcome v2_infer_read(struct request *request);
int v2_infer_answer(struct request *request);

#endif
