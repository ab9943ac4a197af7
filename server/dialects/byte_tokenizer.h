/* byte_tokenizer: text as the ids of its UTF-8 bytes. Byte b is id b + offset, and nothing is added. With offset 3 id 0
 * pads, 1 ends, 2 is the mask, and the text "[MASK]" is the one id 2. With offset 0 no id is special. */
#ifndef SERVER_BYTE_TOKENIZER_H
#define SERVER_BYTE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BYTE_TOKENIZER_BYTES 6 /* of one id at most */

/* One id of `text` from *at on, which moves behind it; *at < length. */
int32_t byte_tokenizer_next(int offset, const char *text, size_t length, size_t *at);

/* How many ids the text is. */
int64_t byte_tokenizer_count(int offset, const char *text, size_t length);

/* Writes `count` ids, those after the first `skip`; the text has as many. */
void byte_tokenizer_encode(int offset, const char *text, size_t length, int64_t skip, int64_t count, int32_t *ids);

int byte_tokenizer_vocabulary(int offset); /* ids that there are */

/* The bytes of an id: one; "[MASK]" for the mask; none for other special ids and ids beyond the vocabulary. Returns how
 * many. */
int byte_tokenizer_bytes(int offset, int32_t id, char bytes[BYTE_TOKENIZER_BYTES]);
bool byte_tokenizer_special(int offset, int32_t id);

#endif
