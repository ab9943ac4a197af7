/* entry: an entry of a call's `inputs` or `outputs`, and its parameters. */
#ifndef SERVER_DIALECTS_V2_ENTRY_H
#define SERVER_DIALECTS_V2_ENTRY_H

#include "server/http/request.h"

#include <jansson.h>

/* The keys of an entry. Entries of `inputs` may have all of them, entries of `outputs` only a name and parameters. NULL
 * if a key is absent. */
struct v2_entry {
    const char *name, *datatype;
    json_t *shape, *parameters, *data;
};

/* Reads entry `index` of the list under `list_key`. It must be an object with a name. On failure, this function and the
 * next one set request->failure and return -1. */
int v2_entry_read(struct request *request, const char *list_key, size_t index, const json_t *json,
                  const struct option *table, size_t count, struct v2_entry *entry);

/* Reads a boolean parameter. If it is absent, *value stays unchanged. Unknown parameters are no error, because other
 * servers have more of them. */
int v2_entry_bool(struct request *request, const json_t *parameters, const char *name, bool *value);

#endif
