/* named: the inputs of a model other than its first one, under the names of forward()'s parameters. */
#ifndef SERVER_DIALECTS_NATIVE_NAMED_H
#define SERVER_DIALECTS_NATIVE_NAMED_H

#include "server/dialects/native/body.h"

/* Calls request_options for a body whose route takes named inputs. Names of the model's inputs are options, too, unless
 * the table has an option of this name. `table` has at most NATIVE_MOST_OPTIONS entries. `out` begins with a struct
 * native_inputs. */
#define NATIVE_MOST_OPTIONS 24
int native_options(struct request *request, const json_t *json, const struct option *table, size_t count, void *out);

/* Finds the inputs that the request names. Sets inputs->inputs or inputs->embeddings to the first one. Fails if a name
 * is unknown or appears twice, or if an input is missing that the model requires. */
int native_named_find(struct request *request, struct native_inputs *inputs);

/* Reads all inputs but the first one, and adds them to the job's items. If only one input has several items, the items
 * of the others are repeated. */
int native_named_read(struct request *request, struct native_inputs *inputs);

#endif
