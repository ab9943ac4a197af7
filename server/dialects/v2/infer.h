/* infer: one inference request, from its body to a job, and its answer. Each element of the batch dimension becomes one
 * item of the job, so the batcher may run the elements in different batches. If an input holds a whole call of
 * forward() (LAYOUT_CALL), the whole request is one item. The output tensors consist of the results of the items, one
 * after another. */
#ifndef SERVER_DIALECTS_V2_INFER_H
#define SERVER_DIALECTS_V2_INFER_H

#include "server/http/routes.h"

enum outcome v2_infer_read(struct request *request);
int v2_infer_answer(struct request *request);

#endif
