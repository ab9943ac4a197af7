/* infer: one call of a model, from its body to a job, and its answer. Each index of the batch dimension is one item.
 * The batcher may run the items in different batches. The results of the items, one after another, form the output
 * tensors. */
#ifndef SERVER_DIALECTS_V2_INFER_H
#define SERVER_DIALECTS_V2_INFER_H

#include "server/http/routes.h"

enum outcome v2_infer_read(struct request *request);
int v2_infer_answer(struct request *request);

#endif
