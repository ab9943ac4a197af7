/* byte_tokenizer: converts text to the ids of its UTF-8 bytes. Byte b has id b + offset. No ids are added at the ends.
 * With offset 3, the ids 0, 1 and 2 are special: padding, end and mask. The text "[MASK]" is then converted to id 2.
 * With offset 0 no id is special. */
#ifndef SERVER_BYTE_TOKENIZER_H
#define SERVER_BYTE_TOKENIZER_H

#include "server/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BYTE_TOKENIZER_BYTES 6 /* maximum number of bytes of an id's text */

/* Returns the id of the text at text[*at], and moves *at to the end of the text of this id. *at must be less than
 * `length`. */
int32_t byte_tokenizer_next(int offset, const char *text, size_t length, size_t *at);

/* Returns the number of ids of the text. */
int64_t byte_tokenizer_count(int offset, const char *text, size_t length);

/* Skips `skip` ids of the text and writes the next `count`. The text must have at least skip + count ids. */
void byte_tokenizer_encode(int offset, const char *text, size_t length, int64_t skip, int64_t count, int32_t *ids);

int byte_tokenizer_vocabulary(int offset); /* number of all ids, including special ids */

/* Writes the text of an id: its byte, or "[MASK]". Other special ids and ids beyond the vocabulary have no text.
 * Returns the number of bytes. */
int byte_tokenizer_bytes(int offset, int32_t id, char bytes[BYTE_TOKENIZER_BYTES]);
bool byte_tokenizer_special(int offset, int32_t id);

/* Returns the id with the role, or -1 if no id has the role. */
int32_t byte_tokenizer_role_id(int offset, enum tokenizer_role role);

#endif
