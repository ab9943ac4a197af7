/* entry: reads an entry of `inputs` or `outputs` of an inference request, and its parameters. */
#ifndef SERVER_DIALECTS_V2_ENTRY_H
#define SERVER_DIALECTS_V2_ENTRY_H

#include "server/http/request.h"

#include <jansson.h>

/* The values of the keys of an entry. NULL if a key is absent. Entries of `outputs` only have a name and parameters. */
struct v2_entry {
    const char *name, *datatype;
    json_t *shape, *parameters, *data;
};

/* Reads entry `index` of the list under `list_key`. The entry must be an object with a name. `table` (count) contains
 * the allowed keys. Here and below, a failing function sets request->failure and returns -1. */
int v2_entry_read(struct request *request, const char *list_key, size_t index, const json_t *json,
                  const struct option *table, size_t count, struct v2_entry *entry);

/* Reads a boolean parameter. If it is absent, *value stays unchanged. Unknown parameters are ignored, because other
 * servers define more parameters. */
int v2_entry_bool(struct request *request, const json_t *parameters, const char *name, bool *value);

#endif
