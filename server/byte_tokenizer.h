/* byte_tokenizer: text as the ids of its UTF-8 bytes. Id 0 pads, 1 ends, 2 is the mask, byte b is id b + 3. The text
 * "[MASK]" is the one id 2; nothing else is special, and nothing is added. */
#ifndef SERVER_BYTE_TOKENIZER_H
#define SERVER_BYTE_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BYTE_TOKENIZER_VOCABULARY 259
#define BYTE_TOKENIZER_BYTES 6 /* of one id at most */

/* One id of `text` from *at on, which moves behind it; *at < length. */
int32_t byte_tokenizer_next(const char *text, size_t length, size_t *at);

/* How many ids the text is. */
int64_t byte_tokenizer_count(const char *text, size_t length);

/* Writes `count` ids, those after the first `skip`; the text has as many. */
void byte_tokenizer_encode(const char *text, size_t length, int64_t skip, int64_t count, int32_t *ids);

/* The bytes of an id: one; "[MASK]" for 2; none for 0, 1 and ids beyond the 259. Returns how many. */
int byte_tokenizer_bytes(int32_t id, char bytes[BYTE_TOKENIZER_BYTES]);
bool byte_tokenizer_special(int32_t id);

#endif
