/* byte_tokenizer: text as the ids of its UTF-8 bytes. */
#include "server/byte_tokenizer.h"

#include <string.h>

static const char mask[] = "[MASK]";
enum { MASK_ID = 2, FIRST_BYTE_ID = 3, MASK_LENGTH = sizeof mask - 1 };

int32_t byte_tokenizer_next(const char *text, size_t length, size_t *at)
{
    if (length - *at >= MASK_LENGTH && memcmp(text + *at, mask, MASK_LENGTH) == 0) {
        *at += MASK_LENGTH;
        return MASK_ID;
    }
    return FIRST_BYTE_ID + (unsigned char)text[(*at)++];
}

int64_t byte_tokenizer_count(const char *text, size_t length)
{
    int64_t count = 0;

    for (size_t at = 0; at < length; count++)
        byte_tokenizer_next(text, length, &at);
    return count;
}

void byte_tokenizer_encode(const char *text, size_t length, int64_t skip, int64_t count, int32_t *ids)
{
    size_t at = 0;

    for (int64_t i = 0; i < skip; i++)
        byte_tokenizer_next(text, length, &at);
    for (int64_t i = 0; i < count; i++)
        ids[i] = byte_tokenizer_next(text, length, &at);
}

int byte_tokenizer_bytes(int32_t id, char bytes[BYTE_TOKENIZER_BYTES])
{
    if (id == MASK_ID) {
        memcpy(bytes, mask, MASK_LENGTH);
        return MASK_LENGTH;
    }
    if (id < FIRST_BYTE_ID || id >= BYTE_TOKENIZER_VOCABULARY)
        return 0;
    bytes[0] = (char)(unsigned char)(id - FIRST_BYTE_ID);
    return 1;
}

bool byte_tokenizer_special(int32_t id)
{
    return id < FIRST_BYTE_ID;
}
