/* What the readers of this folder share: JSON objects and how a value is named in a message. */
#ifndef CONFIG_TEXT_H
#define CONFIG_TEXT_H

#include "config/config.h"

#include <jansson.h>

#define TEXT_FILE_LIMIT_BYTES ((size_t)16 << 20)

/* A new reference to the JSON object in `text`. Duplicate keys and NULs are refused. NULL: the error has line and
 * column; `quote` lets it show the text near them, which may be a secret. */
json_t *text_parse_object(const char *text, size_t length, bool quote, struct error *error);

/* "3", "null", "a list": what a message says was found. Returns buffer. */
const char *text_describe(const json_t *value, char *buffer, size_t size);

#endif
