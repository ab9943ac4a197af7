/* text: parses JSON objects, and describes JSON values in messages. Only files of this folder include it. */
#ifndef CONFIG_TEXT_H
#define CONFIG_TEXT_H

#include "config/config.h"

#include <jansson.h>

#define TEXT_FILE_LIMIT_BYTES ((size_t)16 << 20)

/* Parses `text` as a JSON object, and returns a new reference. Duplicate keys and NULs are errors. Returns NULL after
 * an error. The message about wrong JSON contains line and column. If `quote`, this message also shows the text at this
 * place. Do not set it if the text may be a secret. */
json_t *text_parse_object(const char *text, size_t length, bool quote, struct error *error);

/* Writes a description of a value for a message, such as "3", "null" or "a list". Returns buffer. */
const char *text_describe(const json_t *value, char *buffer, size_t size);

/* Sets the message "expected WHAT, found VALUE". Returns -1. */
int text_expected(struct error *error, const char *what, const json_t *value);

#endif
