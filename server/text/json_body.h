/* json_body: parses the JSON of a body, and reads its options, which a table describes. */
#ifndef SERVER_JSON_BODY_H
#define SERVER_JSON_BODY_H

#include "server/common/failure.h"
#include "server/text/ignored_keys.h"

#include <jansson.h>

/* Call once per process, before json_body_parse. When jansson runs out of memory, it may report a wrong token, or
 * truncate a token. So this function gives jansson allocation functions that record the failure. */
void json_body_init(void);

/* Parses a body. Returns a new reference to its object. On failure sets `failure` and returns NULL. FAILURE_MALFORMED
 * means invalid JSON, and its message contains line and column. Duplicate keys and NULs in keys count as invalid JSON.
 * FAILURE_INVALID means that the body is not an object, or that a number fits neither in a 64 bit integer nor in a
 * double. */
json_t *json_body_parse(const char *body, size_t length, struct failure *failure);

/* Like json_body_parse, for a text that must be a list. */
json_t *json_body_parse_list(const char *text, size_t length, struct failure *failure);

/* Returns an upper bound of the bytes that the two functions above allocate for the text. Does not parse the text. A
 * text of objects like `{},` needs a hundred times as much memory as its length. */
int64_t json_body_memory(const char *text, size_t length);

enum option_type {
    OPTION_BOOL,    /* the member is a bool */
    OPTION_STRING,  /* the member is a const char *, valid as long as the JSON. The string contains no NUL */
    OPTION_INTEGER, /* the member is an int64_t, at least 1 */
    OPTION_LIMIT,   /* the member is an int64_t, at least 0. 0 means no limit */
    OPTION_NUMBER,  /* the member is a double */
    OPTION_JSON,    /* the member is a json_t *, any value, which still belongs to the body */
    OPTION_OBJECT,  /* the member is a json_t *, an object, which still belongs to the body */
    OPTION_LIST,    /* the member is a json_t *, a list, which still belongs to the body */
    OPTION_IGNORED, /* there is no member. Other servers accept this option. Here it has no effect */
};

struct option {
    const char *name;
    enum option_type type;
    size_t offset; /* bytes from the start of the caller's struct to the member */
};

/* The number of entries in a table of options. */
#define OPTION_COUNT(table) (sizeof(table) / sizeof(table)[0])

/* Reads options from `body` into the struct `out`, which contains the defaults. `table` has `count` entries. A key that
 * is absent or null changes nothing. A key that is not in the table is added to `ignored`. If ignored->strict is true,
 * such a key is refused, and the message lists the known keys. With `strict`, a misspelt option cannot lead to a wrong
 * answer with status 200. */
int json_body_options(const json_t *body, const struct option *table, size_t count, void *out,
                      struct ignored_keys *ignored, struct failure *failure);

const char *json_kind(const json_t *value); /* a name for the kind of the value, such as "a string", for messages */

/* Returns the text of a JSON string. Returns NULL if the value is not a string, or contains a NUL, which would end the
 * text early. */
const char *json_word(const json_t *value);

#endif
