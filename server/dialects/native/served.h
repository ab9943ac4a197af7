/* served: which routes a model can serve. */
#ifndef SERVER_DIALECTS_NATIVE_SERVED_H
#define SERVER_DIALECTS_NATIVE_SERVED_H

#include "server/http/routes.h"
#include "server/text/writer.h"

/* Kinds of results that routes return. NATIVE_VECTORS are pooled hidden states, or the outputs of a model that returns
 * one vector for each item. */
enum native_result { NATIVE_VECTORS, NATIVE_TOKENS, NATIVE_LOGITS, NATIVE_CLASSES, NATIVE_RESULT_COUNT };

/* Fails if the model does not return results of the kind `result`. The message names the routes that the model can
 * serve. On failure sets request->failure and returns -1. */
int native_serves(struct request *request, enum native_result result);

/* Writes a JSON list of the routes that the model can serve with a single input. The list contains one route for each
 * kind of result, even if several routes return it. */
void native_write_routes(struct writer *writer, const struct served_model *served);

/* Whether the model's classes have names. For such a model, POST / does the same as POST /predict. */
bool native_is_classifier(const struct served_model *served);

#endif
