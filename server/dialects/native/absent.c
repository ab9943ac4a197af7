/* absent: routes of text-embeddings-inference for kinds of models that the daemon cannot run. The answer is an error
 * message with status 422, because clients would read 404 as a wrong address. */
#include "server/dialects/native/body.h"
#include "server/dialects/native/routes.h"

/* Refuses a request whose body is JSON and names a known model. `reason` follows the model's name in the message. */
static enum outcome refuse(struct request *request, const char *reason)
{
    json_t *json = native_body(request, NULL);
    if (!json)
        return OUTCOME_FAILED;
    json_decref(json);
    failure_set(&request->failure, FAILURE_INVALID, "model \"%s\" %s", request_model_name(request), reason);
    return OUTCOME_FAILED;
}

enum outcome native_rerank(struct request *request)
{
    return refuse(request, "cannot rerank: this server does not support models for pairs of texts. Use /similarity");
}

enum outcome native_embed_sparse(struct request *request)
{
    return refuse(request, "does not return sparse vectors. Use /embed");
}
