/* targets: the key `targets` of /logits, which asks for the log-probabilities of given ids. */
#ifndef SERVER_DIALECTS_NATIVE_TARGETS_H
#define SERVER_DIALECTS_NATIVE_TARGETS_H

#include "server/dialects/native/body.h"

/* Makes each item request the log-probabilities of its targets. `targets` is the value of the key. `base64` says
 * whether the answer is base64. Call it after native_items. */
int native_targets_want(struct request *request, struct native_inputs *inputs, json_t *targets, bool base64);

/* Writes the answer. Call it after the job has run. */
void native_targets_write(struct request *request, bool base64);

#endif
