/* json_body: from bytes to a JSON object and its options. */
#include "server/json_body.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local bool memory_failed; /* in jansson, since it was last set to false */

static void *allocate(size_t size)
{
    void *block = malloc(size);

    memory_failed = memory_failed || !block;
    return block;
}

static void release(void *block)
{
    free(block);
}

void json_body_init(void)
{
    json_set_alloc_funcs(allocate, release);
}

const char *json_kind(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a float";
    case JSON_TRUE:
    case JSON_FALSE:
        return "a boolean";
    default:
        return "null";
    }
}

static int not_json(const json_error_t *error, struct failure *failure)
{
    const char *what = error->text;

    switch (json_error_code(error)) {
    case json_error_null_character:
        what = "a NUL character in a string is not taken";
        break;
    case json_error_stack_overflow:
        what = "it is nested too deeply";
        break;
    default:
        break;
    }
    if (error->line < 0)
        return failure_set(failure, FAILURE_MALFORMED, "the body is not JSON: %s", what);
    return failure_set(failure, FAILURE_MALFORMED, "the body is not JSON: line %d column %d: %s", error->line,
                       error->column, what);
}

json_t *json_body_parse(const char *body, size_t length, struct failure *failure)
{
    json_error_t error;
    json_t *json;

    if (length == 0) {
        failure_set(failure, FAILURE_MALFORMED, "the body is empty, a JSON object was expected");
        return NULL;
    }
    memory_failed = false;
    json = json_loadb(body, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (memory_failed) {
        failure_memory(failure);
        json_decref(json);
        return NULL;
    }
    if (!json) {
        not_json(&error, failure);
        return NULL;
    }
    if (!json_is_object(json)) {
        failure_set(failure, FAILURE_INVALID, "the body is %s, a JSON object was expected", json_kind(json));
        json_decref(json);
        return NULL;
    }
    return json;
}

static int unknown_option(const char *key, const struct option *table, size_t count, struct failure *failure)
{
    char names[256] = "";
    size_t length = 0;

    for (size_t i = 0; i < count && length < sizeof names; i++) {
        if (table[i].type != OPTION_IGNORED)
            length +=
                (size_t)snprintf(names + length, sizeof names - length, "%s%s", length > 0 ? ", " : "", table[i].name);
    }
    return failure_set(failure, FAILURE_INVALID, "unknown key \"%.100s\"; known are %s", key, names);
}

static int read_option(const struct option *option, json_t *value, void *out, struct failure *failure)
{
    void *field = (char *)out + option->offset;

    switch (option->type) {
    case OPTION_BOOL:
        if (!json_is_boolean(value))
            return failure_set(failure, FAILURE_INVALID, "%s is %s, true or false was expected", option->name,
                               json_kind(value));
        *(bool *)field = json_is_true(value);
        return 0;
    case OPTION_STRING:
        if (!json_is_string(value))
            return failure_set(failure, FAILURE_INVALID, "%s is %s, a string was expected", option->name,
                               json_kind(value));
        *(const char **)field = json_string_value(value);
        return 0;
    case OPTION_INTEGER:
        if (!json_is_integer(value))
            return failure_set(failure, FAILURE_INVALID, "%s is %s, an integer was expected", option->name,
                               json_kind(value));
        if (json_integer_value(value) < 1)
            return failure_set(failure, FAILURE_INVALID, "%s is %lld, at least 1 was expected", option->name,
                               (long long)json_integer_value(value));
        *(int64_t *)field = json_integer_value(value);
        return 0;
    case OPTION_JSON:
        *(json_t **)field = value;
        return 0;
    case OPTION_IGNORED:
        return 0;
    }
    return 0;
}

int json_body_options(const json_t *body, const struct option *table, size_t count, void *out, struct failure *failure)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)body, key, value)
    {
        size_t i = 0;

        if (json_is_null(value))
            continue;
        while (i < count && strcmp(table[i].name, key) != 0)
            i++;
        if (i == count)
            return unknown_option(key, table, count, failure);
        if (read_option(&table[i], value, out, failure))
            return -1;
    }
    return 0;
}
