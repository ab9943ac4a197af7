/* json_body: parses a text to a JSON object, and reads options from the object. */
#include "server/text/json_body.h"
#include "server/text/json_text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Tells the allocation functions below whether this thread is in parse_value. Outside of parse_value, the callers of
 * jansson notice failed allocations themselves. */
static _Thread_local enum { OUTSIDE, PARSING, FAILED } state;

/* Allocates memory for jansson. If jansson's buffer for a text cannot grow, jansson continues, and tries to allocate
 * again at each character. After the first failure, the parse has failed in any case. So malloc is not called again,
 * because a failing malloc may be slow. */
static void *allocate(size_t size)
{
    void *block = state == FAILED ? NULL : malloc(size);
    if (!block && state == PARSING)
        state = FAILED;
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

const char *json_word(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

static int not_json(const json_error_t *error, struct failure *failure)
{
    const char *what = error->text;
    switch (json_error_code(error)) {
    case json_error_null_byte_in_key:
        what = "a key contains a NUL character, which is not supported";
        break;
    case json_error_numeric_overflow: /* valid JSON, but too large for 64 bit integers and doubles */
        return failure_set(failure, FAILURE_INVALID, "line %d column %d: a number is out of range: %s", error->line,
                           error->column, what);
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

/* Numbers of bytes that jansson allocates on a 64 bit machine with glibc's malloc, rounded up. A table that grows is
 * counted twice, because jansson frees the old table only after filling the new one. */
enum {
    OBJECT_MEMORY = 224, /* an object with its first eight buckets */
    LIST_MEMORY = 128,   /* a list with its first eight elements */
    VALUE_MEMORY = 56,   /* a number, including its place in a list */
    MEMBER_MEMORY = 128, /* a key, including its buckets, without the text of the key */
    STRING_MEMORY = 80,  /* the memory of a string beyond the memory of a number, without the text of the string */
    LONGEST_COPIES = 3,  /* number of copies of the longest string that exist while it is parsed */
};

int64_t json_body_memory(const char *text, size_t length)
{
    int64_t memory = VALUE_MEMORY, longest = 0;
    for (const char *at = text, *end = text + length; at < end; at++) {
        const char *start = at + 1;
        switch (*at) {
        case '{': /* the number of values in an object or list is at most one more than the number of its commas */
            memory += OBJECT_MEMORY + VALUE_MEMORY;
            break;
        case '[':
            memory += LIST_MEMORY + VALUE_MEMORY;
            break;
        case ',':
            memory += VALUE_MEMORY;
            break;
        case ':':
            memory += MEMBER_MEMORY;
            break;
        case '"':
            at = json_text_string_end(start, end);
            memory += STRING_MEMORY + (at - start);
            longest = at - start > longest ? at - start : longest;
            break;
        }
    }
    return memory + LONGEST_COPIES * longest;
}

/* Parses any JSON value. On failure sets `failure` and returns NULL. */
static json_t *parse_value(const char *text, size_t length, struct failure *failure)
{
    state = PARSING;
    json_error_t error;
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    bool failed = state == FAILED;
    state = OUTSIDE;
    if (failed) {
        failure_memory(failure);
        json_decref(json);
        return NULL;
    }
    if (!json)
        not_json(&error, failure);
    return json;
}

json_t *json_body_parse(const char *body, size_t length, struct failure *failure)
{
    if (length == 0) {
        failure_set(failure, FAILURE_MALFORMED, "the body is empty, a JSON object was expected");
        return NULL;
    }
    json_t *json = parse_value(body, length, failure);
    if (!json || json_is_object(json))
        return json;
    failure_set(failure, FAILURE_INVALID, "the body is %s, a JSON object was expected", json_kind(json));
    json_decref(json);
    return NULL;
}

json_t *json_body_parse_list(const char *text, size_t length, struct failure *failure)
{
    json_t *json = parse_value(text, length, failure);
    assert(!json || json_is_array(json));
    return json;
}

static int unknown_option(const char *key, const struct option *table, size_t count, struct failure *failure)
{
    char names[256] = "";
    for (size_t i = 0; i < count; i++) {
        if (table[i].type != OPTION_IGNORED)
            text_list_add(names, sizeof names, table[i].name);
    }
    return failure_set(failure, FAILURE_INVALID, "unknown key \"%.100s\"; the known ones are %s", key, names);
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
        if (!json_word(value))
            return failure_set(failure, FAILURE_INVALID, "%s contains a NUL character", option->name);
        *(const char **)field = json_string_value(value);
        return 0;
    case OPTION_INTEGER:
    case OPTION_LIMIT: {
        const long long least = option->type == OPTION_INTEGER ? 1 : 0;
        if (!json_is_integer(value))
            return failure_set(failure, FAILURE_INVALID, "%s is %s, an integer was expected", option->name,
                               json_kind(value));
        if (json_integer_value(value) < least)
            return failure_set(failure, FAILURE_INVALID, "%s is %lld, at least %lld was expected", option->name,
                               (long long)json_integer_value(value), least);
        *(int64_t *)field = json_integer_value(value);
        return 0;
    }
    case OPTION_NUMBER:
        if (!json_is_number(value))
            return failure_set(failure, FAILURE_INVALID, "%s is %s, a number was expected", option->name,
                               json_kind(value));
        *(double *)field = json_number_value(value);
        return 0;
    case OPTION_OBJECT:
        if (!json_is_object(value))
            return failure_set(failure, FAILURE_INVALID, "%s is %s, an object was expected", option->name,
                               json_kind(value));
        *(json_t **)field = value;
        return 0;
    case OPTION_LIST:
        if (!json_is_array(value))
            return failure_set(failure, FAILURE_INVALID, "%s is %s, a list was expected", option->name,
                               json_kind(value));
        *(json_t **)field = value;
        return 0;
    case OPTION_JSON:
        *(json_t **)field = value;
        return 0;
    case OPTION_IGNORED:
        return 0;
    }
    return 0;
}

int json_body_options(const json_t *body, const struct option *table, size_t count, void *out,
                      struct ignored_keys *ignored, struct failure *failure)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)body, key, value) {
        size_t i = 0;
        if (json_is_null(value))
            continue;
        while (i < count && strcmp(table[i].name, key) != 0)
            i++;
        if (i == count && ignored->strict)
            return unknown_option(key, table, count, failure);
        if (i == count)
            ignored_keys_add(ignored, key);
        else if (read_option(&table[i], value, out, failure) != 0)
            return -1;
    }
    return 0;
}
