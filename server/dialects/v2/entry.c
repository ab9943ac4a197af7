#include "server/dialects/v2/entry.h"

int v2_entry_read(struct request *request, const char *list_key, size_t index, const json_t *json,
                  const struct option *table, size_t count, struct v2_entry *entry)
{
    struct failure *failure = &request->failure;
    *entry = (struct v2_entry){0};
    if (!json_is_object(json))
        return failure_set(failure, FAILURE_INVALID, "%s[%zu] is %s, an object was expected", list_key, index,
                           json_kind(json));
    if (request_options(request, json, table, count, entry) == 0 && entry->name)
        return 0;
    if (failure->kind == FAILURE_NONE)
        failure_set(failure, FAILURE_INVALID, "name is missing");
    return error_prefix(&failure->error, "%s[%zu]", list_key, index);
}

int v2_entry_bool(struct request *request, const json_t *parameters, const char *name, bool *value)
{
    const json_t *found = json_object_get(parameters, name);
    if (!found || json_is_null(found))
        return 0;
    if (!json_is_boolean(found))
        return failure_set(&request->failure, FAILURE_INVALID, "parameter %s is %s, true or false was expected", name,
                           json_kind(found));
    *value = json_is_true(found);
    return 0;
}
