/* json_body: parses the JSON of a body, and reads its options as a table describes them. */
#ifndef SERVER_JSON_BODY_H
#define SERVER_JSON_BODY_H

#include "server/common/failure.h"
#include "server/text/ignored_keys.h"

#include <jansson.h>

/* Call once per process, before json_body_parse. When jansson runs out of memory, it may report a wrong token, or
 * truncate a token. So this function gives jansson allocation functions that record the failure. */
void json_body_init(void);

/* Returns a new reference to the body's object. On failure sets `failure` and returns NULL. FAILURE_MALFORMED means
 * invalid JSON, and its message contains line and column. Duplicate keys and NULs in keys count as invalid JSON.
 * FAILURE_INVALID means that the body is not an object, or that a number fits neither in a 64 bit integer nor in a
 * double. */
json_t *json_body_parse(const char *body, size_t length, struct failure *failure);

/* Like json_body_parse, for a text that is known to be a list. */
json_t *json_body_parse_list(const char *text, size_t length, struct failure *failure);

/* An upper bound of the bytes that the two functions above allocate for the text. It does not parse the text. A text of
 * objects like `{},` needs a hundred times as many bytes as the text has. */
int64_t json_body_memory(const char *text, size_t length);

enum option_type {
    OPTION_BOOL,    /* bool */
    OPTION_STRING,  /* const char *, valid as long as the JSON. Contains no NUL */
    OPTION_INTEGER, /* int64_t, >= 1 */
    OPTION_LIMIT,   /* int64_t, >= 0, where 0 means no limit */
    OPTION_NUMBER,  /* double */
    OPTION_JSON,    /* json_t *, any value, borrowed */
    OPTION_OBJECT,  /* json_t *, an object, borrowed */
    OPTION_LIST,    /* json_t *, a list, borrowed */
    OPTION_IGNORED, /* other servers have this option. Here it has no effect */
};

struct option {
    const char *name;
    enum option_type type;
    size_t offset; /* bytes from the start of the caller's struct to the member */
};

/* Entries of an options table. */
#define OPTION_COUNT(table) (sizeof(table) / sizeof(table)[0])

/* Reads options from `body` into the struct `out`, which contains the defaults. `table` has `count` entries. A key that
 * is absent or null changes nothing. A key that is not in the table is added to `ignored`. If ignored->strict is set,
 * such a key is refused instead, and the message lists the known keys. Otherwise a misspelt option would lead to a
 * wrong answer with status 200. */
int json_body_options(const json_t *body, const struct option *table, size_t count, void *out,
                      struct ignored_keys *ignored, struct failure *failure);

const char *json_kind(const json_t *value); /* the kind of the value for messages, such as "a string" */

/* The text of a JSON string. NULL if the value is not a string, or contains a NUL, which would end the text early. */
const char *json_word(const json_t *value);

#endif
