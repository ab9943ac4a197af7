/* text: JSON objects, and the words for a value in a message. Private to this folder. */
#ifndef CONFIG_TEXT_H
#define CONFIG_TEXT_H

#include "config/config.h"

#include <jansson.h>

#define TEXT_FILE_LIMIT_BYTES ((size_t)16 << 20)

/* Parses `text` as a JSON object, and returns a new reference. Duplicate keys and NULs are refused. NULL: the error has
 * line and column. With `quote` it also shows the text near them, which may be a secret. */
json_t *text_parse_object(const char *text, size_t length, bool quote, struct error *error);

/* Writes the words for a value that was found, such as "3", "null" or "a list". Returns buffer. */
const char *text_describe(const json_t *value, char *buffer, size_t size);

/* Sets the message "expected WHAT, found VALUE". Returns -1. */
int text_expected(struct error *error, const char *what, const json_t *value);

#endif
