/* byte_tokenizer: converts text to the ids of its UTF-8 bytes. */
#include "server/tokenizer/byte_tokenizer.h"

#include <string.h>

static const char mask[] = "[MASK]";
enum { PAD_ID = 0, END_ID = 1, MASK_ID = 2, MASK_LENGTH = sizeof mask - 1 };

int32_t byte_tokenizer_next(int offset, const char *text, size_t length, size_t *at)
{
    if (offset > MASK_ID && length - *at >= MASK_LENGTH && memcmp(text + *at, mask, MASK_LENGTH) == 0) {
        *at += MASK_LENGTH;
        return MASK_ID;
    }
    return offset + (unsigned char)text[(*at)++];
}

int64_t byte_tokenizer_count(int offset, const char *text, size_t length)
{
    int64_t count = 0;
    for (size_t at = 0; at < length; count++)
        byte_tokenizer_next(offset, text, length, &at);
    return count;
}

void byte_tokenizer_encode(int offset, const char *text, size_t length, int64_t skip, int64_t count, int32_t *ids)
{
    size_t at = 0;
    for (int64_t i = 0; i < skip; i++)
        byte_tokenizer_next(offset, text, length, &at);
    for (int64_t i = 0; i < count; i++)
        ids[i] = byte_tokenizer_next(offset, text, length, &at);
}

int byte_tokenizer_vocabulary(int offset)
{
    return offset + UINT8_MAX + 1;
}

int byte_tokenizer_bytes(int offset, int32_t id, char bytes[BYTE_TOKENIZER_BYTES])
{
    if (id == MASK_ID && byte_tokenizer_special(offset, id)) {
        memcpy(bytes, mask, MASK_LENGTH);
        return MASK_LENGTH;
    }
    if (byte_tokenizer_special(offset, id) || id >= byte_tokenizer_vocabulary(offset))
        return 0;
    bytes[0] = (char)(unsigned char)(id - offset);
    return 1;
}

bool byte_tokenizer_special(int offset, int32_t id)
{
    return id < offset;
}

int32_t byte_tokenizer_role_id(int offset, enum tokenizer_role role)
{
    static const int32_t ids[TOKENIZER_ROLES] = {[TOKENIZER_MASK] = MASK_ID,
                                                 [TOKENIZER_PAD] = PAD_ID,
                                                 [TOKENIZER_UNK] = -1,
                                                 [TOKENIZER_BOS] = -1,
                                                 [TOKENIZER_EOS] = END_ID};
    return ids[role] < offset ? ids[role] : -1;
}
