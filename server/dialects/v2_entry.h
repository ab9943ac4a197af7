/* v2_entry: an entry of a call's `inputs` or `outputs`, and its parameters. */
#ifndef SERVER_DIALECTS_V2_ENTRY_H
#define SERVER_DIALECTS_V2_ENTRY_H

#include "server/http/request.h"

#include <jansson.h>

/* Keys of an entry. `inputs` have all of them, `outputs` a name and parameters. NULL: the key is absent. */
struct v2_entry {
    const char *name, *datatype;
    json_t *shape, *parameters, *data;
};

/* Reads entry `index` of the list under `list_key`: an object with a name. -1: request->failure, here and below. */
int v2_entry_read(struct request *request, const char *list_key, size_t index, const json_t *json,
                  const struct option *table, size_t count, struct v2_entry *entry);

/* Reads a boolean parameter. Other servers have parameters that are unknown here, so unknown ones are no error. *value
 * keeps its value if the parameter is absent. */
int v2_entry_bool(struct request *request, const json_t *parameters, const char *name, bool *value);

#endif
