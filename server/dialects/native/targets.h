/* targets: log-probabilities of given ids, for /logits. */
#ifndef SERVER_DIALECTS_NATIVE_TARGETS_H
#define SERVER_DIALECTS_NATIVE_TARGETS_H

#include "server/dialects/native/body.h"

/* Makes each item request the log-probabilities of its targets. `targets` is the value of the key, `base64` the form of
 * the answer. Call it after native_items. */
int native_targets_want(struct request *request, struct native_inputs *inputs, json_t *targets, bool base64);

/* Writes the answer after the run. */
void native_targets_write(struct request *request, bool base64);

#endif
