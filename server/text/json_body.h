/* json_body: a body's JSON and the options in it, read through a table. */
#ifndef SERVER_JSON_BODY_H
#define SERVER_JSON_BODY_H

#include "server/common/failure.h"
#include "server/text/ignored_keys.h"

#include <jansson.h>

/* Once per process, before json_body_parse. jansson takes a token that it has no memory for as a wrong one, or cuts it,
 * so its allocations go through functions that notice. */
void json_body_init(void);

/* A new reference to the object that the body is. NULL: `failure`, FAILURE_MALFORMED with line and column where it is
 * not JSON (duplicate keys and NULs in keys count as that), FAILURE_INVALID where it is not an object, or a number in
 * it is beyond 64 bit integers and doubles. */
json_t *json_body_parse(const char *body, size_t length, struct failure *failure);

/* The most memory that json_body_parse takes for the text, found without parsing: `{},` is 3 bytes of text and a
 * hundred times as many of objects. */
int64_t json_body_memory(const char *text, size_t length);

enum option_type {
    OPTION_BOOL,    /* bool */
    OPTION_STRING,  /* const char *, lives as long as the JSON; no NUL in it */
    OPTION_INTEGER, /* int64_t, >= 1 */
    OPTION_JSON,    /* json_t *, any value, borrowed */
    OPTION_OBJECT,  /* json_t *, an object, borrowed */
    OPTION_LIST,    /* json_t *, a list, borrowed */
    OPTION_IGNORED, /* known from other servers, without a meaning here */
};

struct option {
    const char *name;
    enum option_type type;
    size_t offset; /* of the field in the caller's struct */
};

/* Fills `out`, which holds the defaults, from a table of `count` options. A key that is absent or null changes nothing.
 * A key that the table lacks is added to `ignored`. With ignored->strict the body is refused instead, and the message
 * has the table's names: a misspelt option would give a wrong answer with status 200. */
int json_body_options(const json_t *body, const struct option *table, size_t count, void *out,
                      struct ignored_keys *ignored, struct failure *failure);

const char *json_kind(const json_t *value); /* "a string", for messages */

/* A string as a terminated one. NULL: it is none, or holds a NUL, which would cut it. */
const char *json_word(const json_t *value);

#endif
