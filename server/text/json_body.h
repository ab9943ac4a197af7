/* json_body: a body's JSON and the options in it, read through a table. */
#ifndef SERVER_JSON_BODY_H
#define SERVER_JSON_BODY_H

#include "server/common/failure.h"
#include "server/text/ignored_keys.h"

#include <jansson.h>

/* Call once per process, before json_body_parse. When jansson runs out of memory it may report a wrong token, or cut
 * one. So it gets allocation functions that record the failure. */
void json_body_init(void);

/* Returns a new reference to the body's object. NULL: `failure`. FAILURE_MALFORMED means invalid JSON, with line and
 * column; duplicate keys and NULs in keys count as that. FAILURE_INVALID means that the body is no object, or that a
 * number exceeds 64 bit integers and doubles. */
json_t *json_body_parse(const char *body, size_t length, struct failure *failure);

/* The same for a text that is known to be a list. */
json_t *json_body_parse_list(const char *text, size_t length, struct failure *failure);

/* An upper bound of the bytes that the two functions above allocate for the text. It does not parse the text. A text of
 * objects like `{},` needs a hundred times its own length. */
int64_t json_body_memory(const char *text, size_t length);

enum option_type {
    OPTION_BOOL,    /* bool */
    OPTION_STRING,  /* const char *, valid as long as the JSON; contains no NUL */
    OPTION_INTEGER, /* int64_t, >= 1 */
    OPTION_JSON,    /* json_t *, any value, borrowed */
    OPTION_OBJECT,  /* json_t *, an object, borrowed */
    OPTION_LIST,    /* json_t *, a list, borrowed */
    OPTION_IGNORED, /* other servers know it; it has no effect here */
};

struct option {
    const char *name;
    enum option_type type;
    size_t offset; /* of the field in the caller's struct */
};

/* Entries of an options table. */
#define OPTION_COUNT(table) (sizeof(table) / sizeof(table)[0])

/* Reads options from `body` into `out`, which holds the defaults. `table` has `count` of them. A key that is absent or
 * null changes nothing. A key that the table lacks is added to `ignored`. With ignored->strict such a key is refused,
 * with the known names in the message: a misspelt option would give a wrong answer with status 200. */
int json_body_options(const json_t *body, const struct option *table, size_t count, void *out,
                      struct ignored_keys *ignored, struct failure *failure);

const char *json_kind(const json_t *value); /* "a string", for messages */

/* The text of a JSON string. NULL: the value is no string, or contains a NUL that would end it early. */
const char *json_word(const json_t *value);

#endif
