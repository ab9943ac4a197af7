/* text: parses JSON objects, and describes JSON values in messages. */
#include "config/text.h"

#include <stdio.h>
#include <string.h>

/* The reason why jansson failed, in words for the author of the file. jansson's own text for a NUL names an option of
 * its API, and its text for lack of memory is empty.
 */
static const char *parse_reason(const json_error_t *reason)
{
    switch (json_error_code(reason)) {
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "a NUL character in a string";
    case json_error_out_of_memory:
        return "out of memory";
    default:
        return reason->text[0] ? reason->text : "out of memory";
    }
}

json_t *text_parse_object(const char *text, size_t length, bool quote, struct error *error)
{
    if (length == 0) {
        error_set(error, "is empty, expected a JSON object");
        return NULL;
    }
    json_error_t reason = {0};
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &reason);
    if (!object) {
        const char *what = parse_reason(&reason);
        const char *near = quote ? NULL : strstr(what, " near ");
        error_set(error, "line %d, column %d: %.*s", reason.line, reason.column,
                  near ? (int)(near - what) : (int)strlen(what), what);
        return NULL;
    }
    if (!json_is_object(object)) {
        error_set(error, "expected a JSON object, found a list");
        json_decref(object);
        return NULL;
    }
    return object;
}

const char *text_describe(const json_t *value, char *buffer, size_t size)
{
    int length = 0;
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        length = snprintf(buffer, size, "an object");
        break;
    case JSON_ARRAY:
        length = snprintf(buffer, size, "a list");
        break;
    case JSON_STRING:
        length = snprintf(buffer, size, "\"%s\"", json_string_value(value));
        break;
    case JSON_INTEGER:
        length = snprintf(buffer, size, "%lld", (long long)json_integer_value(value));
        break;
    case JSON_REAL:
        length = snprintf(buffer, size, "the fraction %.9g", json_real_value(value));
        break;
    case JSON_TRUE:
        length = snprintf(buffer, size, "true");
        break;
    case JSON_FALSE:
        length = snprintf(buffer, size, "false");
        break;
    case JSON_NULL:
        length = snprintf(buffer, size, "null");
        break;
    }
    if (length >= (int)size && size > 3)
        memcpy(buffer + size - 4, "...", 4);
    return buffer;
}

int text_expected(struct error *error, const char *what, const json_t *value)
{
    char found[80];
    return error_set(error, "expected %s, found %s", what, text_describe(value, found, sizeof found));
}
