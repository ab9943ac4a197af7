/* text_codec: opens a codec, describes its ids, and converts ids to text. text_encoding.c converts text to ids. */
#include "server/tokenizer/text_codec.h"
#include "server/tokenizer/byte_tokenizer.h"
#include "server/tokenizer/text_codec_parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- The text of each id ---- */

/* The texts of all ids, while they are collected. */
struct token_texts {
    char *bytes;
    size_t length, capacity;
};

static int append(struct token_texts *texts, const char *text, size_t length, struct error *error)
{
    size_t wanted = texts->length + length;
    if (wanted > UINT32_MAX)
        return error_set(error, "expected less than 4 GiB for the texts of all tokens");
    if (!texts->bytes || wanted > texts->capacity) {
        size_t capacity = wanted * 2 + 64;
        char *bytes = realloc(texts->bytes, capacity);
        if (!bytes)
            return error_set(error, "out of memory");
        texts->bytes = bytes;
        texts->capacity = capacity;
    }
    if (length > 0)
        memcpy(texts->bytes + texts->length, text, length);
    texts->length = wanted;
    return 0;
}

static int append_id(const struct text_codec *codec, int32_t id, struct token_texts *texts, struct error *error)
{
    char bytes[BYTE_TOKENIZER_BYTES];
    if (!codec->tokenizer)
        return append(texts, bytes, (size_t)byte_tokenizer_bytes(codec->offset, id, bytes), error);
    size_t length;
    if (!tokenizer_token(codec->tokenizer, id, &length))
        return append(texts, "", 0, error);
    char *text = tokenizer_decode(codec->tokenizer, &id, 1, false, &length, error);
    if (!text)
        return -1;
    int status = append(texts, text, length, error);
    free(text);
    return status;
}

/* Decodes each id once when the codec is opened, because answers may contain the texts of a million ids. */
static int decode_ids(struct text_codec *codec, struct error *error)
{
    struct token_texts texts = {0};
    codec->ends = calloc((size_t)codec->n_ids + 1, sizeof *codec->ends);
    if (!codec->ends)
        return error_set(error, "out of memory");
    int status = append(&texts, "", 0, error);
    for (int64_t id = 0; status == 0 && id < codec->n_ids; id++) {
        size_t begin = texts.length;
        status = append_id(codec, (int32_t)id, &texts, error);
        codec->ends[id] = (uint32_t)texts.length;
        codec->longest = texts.length - begin > codec->longest ? texts.length - begin : codec->longest;
    }
    codec->texts = texts.bytes;
    return status;
}

/* ---- Opening ---- */

int64_t text_characters(const char *text, size_t length)
{
    int64_t count = 0;
    for (size_t at = 0; at < length; count++) {
        uint32_t code;
        size_t size = text_character(text + at, length - at, &code);
        at += size > 0 ? size : code;
    }
    return count;
}

/* Finds the text that replaces "[MASK]" in a text. If "[MASK]" is itself a token, nothing is replaced. */
static void find_mask(struct text_codec *codec)
{
    int32_t id = tokenizer_role_id(codec->tokenizer, TOKENIZER_MASK);
    const char *mask = id < 0 ? NULL : tokenizer_token(codec->tokenizer, id, &codec->mask_length);
    if (!mask || tokenizer_id(codec->tokenizer, TEXT_MASK, strlen(TEXT_MASK)) >= 0)
        return;
    codec->mask = mask;
    codec->mask_characters = text_characters(mask, codec->mask_length);
}

static int finish(struct text_codec *codec, const char *name, struct text_codec **opened, struct error *error)
{
    codec->name = strdup(name);
    if (!codec->name)
        return error_set(error, "out of memory");
    if (decode_ids(codec, error) != 0)
        return -1;
    *opened = codec;
    return 0;
}

int text_codec_open_bytes(int offset, struct text_codec **opened, struct error *error)
{
    struct text_codec *codec = calloc(1, sizeof *codec);
    if (!codec)
        return error_set(error, "out of memory");
    codec->offset = offset;
    codec->n_ids = byte_tokenizer_vocabulary(offset);
    if (finish(codec, "byte", opened, error) == 0)
        return 0;
    text_codec_close(codec);
    return -1;
}

int text_codec_open(const char *json, size_t length, const char *name, const char *origin, struct text_codec **opened,
                    struct error *error)
{
    struct text_codec *codec = calloc(1, sizeof *codec);
    if (!codec)
        return error_set(error, "out of memory");
    if (tokenizer_open(json, length, origin, &codec->tokenizer, error) != 0) {
        free(codec);
        return -1;
    }
    codec->n_ids = tokenizer_ids(codec->tokenizer);
    find_mask(codec);
    if (finish(codec, name, opened, error) == 0)
        return 0;
    text_codec_close(codec);
    return error_prefix(error, "%s", origin);
}

void text_codec_close(struct text_codec *codec)
{
    if (!codec)
        return;
    tokenizer_close(codec->tokenizer);
    free(codec->name);
    free(codec->texts);
    free(codec->ends);
    free(codec);
}

/* ---- Ids ---- */

const char *text_codec_name(const struct text_codec *codec)
{
    return codec->name;
}

int text_codec_byte_offset(const struct text_codec *codec)
{
    return codec->tokenizer ? -1 : codec->offset;
}

int64_t text_codec_ids(const struct text_codec *codec)
{
    return codec->n_ids;
}

bool text_codec_special(const struct text_codec *codec, int32_t id)
{
    return codec->tokenizer ? tokenizer_special(codec->tokenizer, id) : byte_tokenizer_special(codec->offset, id);
}

int64_t text_codec_template_tokens(const struct text_codec *codec)
{
    return codec->tokenizer ? (int64_t)tokenizer_template_tokens(codec->tokenizer) : 0;
}

int32_t text_codec_role_id(const struct text_codec *codec, enum tokenizer_role role)
{
    return codec->tokenizer ? tokenizer_role_id(codec->tokenizer, role) : byte_tokenizer_role_id(codec->offset, role);
}

int32_t text_codec_id(const struct text_codec *codec, const char *token, size_t length)
{
    return codec->tokenizer ? tokenizer_id(codec->tokenizer, token, length) : -1;
}

const char *text_codec_token(const struct text_codec *codec, int32_t id, size_t *length)
{
    *length = 0;
    if (id < 0 || id >= codec->n_ids)
        return "";
    size_t begin = id > 0 ? codec->ends[id - 1] : 0;
    *length = codec->ends[id] - begin;
    return codec->texts + begin;
}

size_t text_codec_longest_token(const struct text_codec *codec)
{
    return codec->longest;
}

/* ---- Ids to text ---- */

/* Bytes of memory that decoding needs for each token, and for each byte of its text. The decoder's steps keep two
 * copies of all texts, and the end of each text. The capacity of the copies grows by doubling. A byte that is not UTF-8
 * becomes U+FFFD, which has three bytes. */
enum { DECODE_TOKEN_BYTES = 4 * sizeof(size_t), DECODE_TEXT_BYTES = 12 };

int64_t text_codec_decode_memory(const struct text_codec *codec, const int32_t *ids, int64_t count)
{
    int64_t bytes = 0;
    if (!codec->tokenizer)
        return count * BYTE_TOKENIZER_BYTES + 1;
    for (int64_t i = 0; i < count; i++) {
        size_t length = 0;
        if (tokenizer_token(codec->tokenizer, ids[i], &length))
            bytes += DECODE_TOKEN_BYTES + DECODE_TEXT_BYTES * ((int64_t)length + 1);
    }
    return bytes;
}

static char *decode_bytes(const struct text_codec *codec, const int32_t *ids, int64_t count, bool skip_special_tokens,
                          size_t *length, struct error *error)
{
    char *text = malloc((size_t)count * BYTE_TOKENIZER_BYTES + 1);
    if (!text) {
        error_set(error, "out of memory");
        return NULL;
    }
    *length = 0;
    for (int64_t i = 0; i < count; i++)
        if (!skip_special_tokens || !byte_tokenizer_special(codec->offset, ids[i]))
            *length += (size_t)byte_tokenizer_bytes(codec->offset, ids[i], text + *length);
    text[*length] = '\0';
    return text;
}

char *text_codec_decode(const struct text_codec *codec, const int32_t *ids, int64_t count, bool skip_special_tokens,
                        size_t *length, struct error *error)
{
    if (!codec->tokenizer)
        return decode_bytes(codec, ids, count, skip_special_tokens, length, error);
    return tokenizer_decode(codec->tokenizer, ids, (size_t)count, skip_special_tokens, length, error);
}
