/* named: reads the inputs of a model under the names of forward()'s parameters, except the value of the first input. */
#ifndef SERVER_DIALECTS_NATIVE_NAMED_H
#define SERVER_DIALECTS_NATIVE_NAMED_H

#include "server/dialects/native/body.h"

/* Calls request_options for the body of a route with native_inputs.named. The names of the model's inputs are
 * additional options, except those that `table` already contains. `table` has at most NATIVE_MAX_OPTIONS entries.
 * `out` begins with a struct native_inputs. */
#define NATIVE_MAX_OPTIONS 24
int native_options(struct request *request, const json_t *json, const struct option *table, size_t count, void *out);

/* Finds the inputs that the request names. Sets inputs->inputs or inputs->embeddings to the value of the first input.
 * Fails if a name is unknown or appears twice, or if a required input is missing. */
int native_named_find(struct request *request, struct native_inputs *inputs);

/* Reads the values of all inputs except the first one into the items of the job. An input with a single item is used
 * for all items of the job. All other inputs must have the same number of items. */
int native_named_read(struct request *request, struct native_inputs *inputs);

#endif
