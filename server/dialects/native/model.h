/* model: the model of a request, and the kind of its first input. */
#ifndef SERVER_DIALECTS_NATIVE_MODEL_H
#define SERVER_DIALECTS_NATIVE_MODEL_H

#include "server/http/routes.h"

const struct served_model *native_model(const struct request *request);
bool native_takes_pictures(const struct request *request);

/* Whether an item of this input is a sequence: ids (length), or rows (length, columns). */
bool native_is_sequence(const struct model_input *input);

/* Fails if the model's first input is not a sequence of ids or of rows of floats. On failure sets request->failure and
 * returns -1. */
int native_takes_sequences(struct request *request);

/* The number of floats in a row of the first input. 1 if this input accepts ids. */
int64_t native_columns(const struct model_info *info);

/* Sets the first input of the item, which is a sequence, to the `length` rows at `data`. */
void native_place(const struct request *request, struct engine_item *item, const void *data, int64_t length);

#endif
