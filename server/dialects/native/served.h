/* served: which routes serve a model. */
#ifndef SERVER_DIALECTS_NATIVE_SERVED_H
#define SERVER_DIALECTS_NATIVE_SERVED_H

#include "server/http/routes.h"
#include "server/text/writer.h"

/* What routes return. A vector is a pooled hidden state, or the output of a model that returns one vector per item. */
enum native_result { NATIVE_VECTORS, NATIVE_TOKENS, NATIVE_LOGITS, NATIVE_CLASSES, NATIVE_RESULT_COUNT };

/* Fails if the model does not return this result. The message names the routes that serve the model. On failure sets
 * request->failure and returns -1. */
int native_serves(struct request *request, enum native_result result);

/* Writes a JSON list of routes that serve the model and need only one input. Routes that serve every model are left
 * out, so the list tells models apart. */
void native_write_routes(struct writer *writer, const struct served_model *served);

/* Whether the model has classes with names. Then POST / does the same as POST /predict. */
bool native_is_classifier(const struct served_model *served);

#endif
