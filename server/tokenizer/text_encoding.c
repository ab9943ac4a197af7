/* text_encoding: converts text to ids with a codec, and finds the position of each token in the text. */
#define _GNU_SOURCE /* memmem */
#include "server/tokenizer/byte_tokenizer.h"
#include "server/tokenizer/text_codec.h"
#include "server/tokenizer/text_codec_parts.h"

#include <stdlib.h>
#include <string.h>

#define MASK_LENGTH (sizeof TEXT_MASK - 1) /* length of "[MASK]", both in bytes and in characters */
#define BLOCK_CHARACTERS 64

/* The positions of the tokens in a text. */
struct text_places {
    /* text_codec_encode sets the members from here to masks_capacity. */
    char *replaced; /* a copy of the text, with the text of the mask token in place of each "[MASK]" */
    size_t replaced_capacity;
    int64_t *masks; /* for each replaced mask, the number of characters before it in `replaced` (n_masks) */
    size_t n_masks, masks_capacity;

    /* text_encoding_next uses the members below. */
    uint32_t *blocks; /* number of bytes before each block of BLOCK_CHARACTERS characters */
    size_t blocks_capacity;
    bool is_ascii;
    int64_t next; /* index of the token for the next call. The members below are for codecs of bytes */
    size_t at;    /* index of the first byte of the next token */
    /* The character that contains the next token, or that ends directly before the next token, in bytes of the text. */
    size_t character_begin, character_size;
    int64_t characters; /* number of characters up to and including this character */
};

/* Makes room for `count` elements of `size` bytes in *array. */
static int grow(void **array, size_t *capacity, size_t count, size_t size, struct error *error)
{
    if (*array && *capacity >= count)
        return 0;
    void *larger = realloc(*array, count * size);
    if (!larger)
        return error_set(error, "out of memory");
    *array = larger;
    *capacity = count;
    return 0;
}

static int open_places(struct text_encoding *encoding, struct error *error)
{
    if (!encoding->places)
        encoding->places = calloc(1, sizeof *encoding->places);
    return encoding->places ? 0 : error_set(error, "out of memory");
}

/* ---- "[MASK]" in a text whose mask token has another text ---- */

static size_t count_masks(const char *text, size_t length)
{
    size_t count = 0;
    for (const char *at = text, *end = text + length;
         (at = memmem(at, (size_t)(end - at), TEXT_MASK, MASK_LENGTH)) != NULL; at += MASK_LENGTH)
        count++;
    return count;
}

/* Sets *text to a copy of the text in which the text of the mask token replaces each "[MASK]". */
static int replace_masks(const struct text_codec *codec, struct text_places *places, size_t count, const char **text,
                         size_t *length, struct error *error)
{
    size_t room;
    if (__builtin_mul_overflow(count, codec->mask_length, &room) ||
        __builtin_add_overflow(room, *length - count * MASK_LENGTH, &room))
        return error_set(error, "out of memory");
    if (grow((void **)&places->replaced, &places->replaced_capacity, room + 1, 1, error) != 0 ||
        grow((void **)&places->masks, &places->masks_capacity, count, sizeof *places->masks, error) != 0)
        return -1;
    const char *from = *text, *end = *text + *length;
    char *to = places->replaced;
    int64_t characters = 0;
    for (size_t i = 0; i <= count; i++) {
        const char *mask = i < count ? memmem(from, (size_t)(end - from), TEXT_MASK, MASK_LENGTH) : end;
        size_t before = (size_t)(mask - from);
        memcpy(to, from, before);
        to += before;
        if (i == count)
            break;
        characters += text_characters(from, before);
        places->masks[i] = characters;
        characters += codec->mask_characters;
        memcpy(to, codec->mask, codec->mask_length);
        to += codec->mask_length;
        from = mask + MASK_LENGTH;
    }
    places->n_masks = count;
    *text = places->replaced;
    *length = room;
    return 0;
}

/* Converts the index of a character in the text with replaced masks to an index in the given text. */
static int64_t given_character(const struct text_codec *codec, const struct text_places *places, int64_t character)
{
    const int64_t longer = codec->mask_characters - (int64_t)MASK_LENGTH;
    /* Binary search: masks with a lower index than `below` begin before the character. */
    size_t below = 0, above = places->n_masks;
    while (below < above) {
        size_t middle = below + (above - below) / 2;
        if (places->masks[middle] < character)
            below = middle + 1;
        else
            above = middle;
    }
    if (below == 0)
        return character;
    int64_t begin = places->masks[below - 1], inside = character - begin;
    if (inside >= codec->mask_characters)
        return character - (int64_t)below * longer;
    inside = inside < (int64_t)MASK_LENGTH ? inside : (int64_t)MASK_LENGTH;
    return begin - (int64_t)(below - 1) * longer + inside;
}

/* ---- Memory ---- */

/* Bytes of memory that encoding needs. ASCII_MEMORY and OTHER_MEMORY apply to each byte, INVALID_MEMORY and
 * EXPANDING_MEMORY to each character, and MIN_MEMORY to each text. The memory contains the normalised copy with the
 * origin of each byte, the pieces, the model's symbols, and the tokens. unit/test_text_codec measures up to 180 bytes
 * for each normalised byte. NFKD makes up to three bytes of one byte, or up to eleven for characters that expand. A
 * part that is not UTF-8 becomes U+FFFD. */
enum { ASCII_MEMORY = 200, OTHER_MEMORY = 600, INVALID_MEMORY = 600, EXPANDING_MEMORY = 4500, MIN_MEMORY = 64 << 10 };

/* Whether NFKD converts the character to more than three times as many bytes. Such characters are abbreviations in
 * squares, Arabic ligatures, and quadruple signs. */
static bool expands(uint32_t character)
{
    return (character >= 0x3200 && character < 0x3400) || (character >= 0xFB00 && character < 0xFE00) ||
           character == 0x2057 || character == 0x2A0C;
}

int64_t text_codec_memory(const struct text_codec *codec, const char *text, size_t length)
{
    int64_t bytes = MIN_MEMORY;
    if (!codec->tokenizer)
        return 0;
    for (size_t at = 0; at < length;) {
        uint32_t code;
        size_t size = text_character(text + at, length - at, &code);
        if (size == 0)
            bytes += INVALID_MEMORY;
        else
            bytes += size == 1 ? ASCII_MEMORY : OTHER_MEMORY * (int64_t)size + (expands(code) ? EXPANDING_MEMORY : 0);
        at += size > 0 ? size : code;
    }
    return bytes;
}

/* ---- Encoding ---- */

static void encode_bytes(const struct text_codec *codec, const struct text_options *options,
                         struct text_encoding *encoding)
{
    int64_t count = byte_tokenizer_count(codec->offset, encoding->text, encoding->length);
    encoding->count = count < options->max_tokens ? count : options->max_tokens;
    encoding->skip = options->truncate_left ? count - encoding->count : 0;
}

int text_codec_encode(const struct text_codec *codec, const char *text, size_t length,
                      const struct text_options *options, struct text_encoding *encoding, struct error *error)
{
    encoding->codec = codec;
    encoding->text = text;
    encoding->length = length;
    encoding->count = 0;
    if (encoding->places)
        encoding->places->n_masks = encoding->places->next = 0;
    if (!codec->tokenizer) {
        encode_bytes(codec, options, encoding);
        return 0;
    }
    struct tokenizer_options asked = {
        .add_special_tokens = options->add_special_tokens,
        .truncate_left = options->truncate_left,
        .max_length = options->max_tokens == TEXT_NO_LIMIT ? TOKENIZER_NO_LIMIT : (size_t)options->max_tokens,
    };
    size_t n_masks = codec->mask ? count_masks(text, length) : 0;
    if (n_masks > 0 && (open_places(encoding, error) != 0 ||
                        replace_masks(codec, encoding->places, n_masks, &text, &length, error) != 0))
        return -1;
    if (tokenizer_encode(codec->tokenizer, text, length, &asked, &encoding->tokens, error) != 0)
        return -1;
    encoding->count = (int64_t)encoding->tokens.count;
    return 0;
}

void text_encoding_ids(const struct text_encoding *encoding, int32_t *ids)
{
    const struct text_codec *codec = encoding->codec;
    if (!codec->tokenizer)
        byte_tokenizer_encode(codec->offset, encoding->text, encoding->length, encoding->skip, encoding->count, ids);
    else
        for (int64_t i = 0; i < encoding->count; i++)
            ids[i] = encoding->tokens.tokens[i].id;
}

/* ---- Tokens one after another ---- */

static bool is_ascii(const char *text, size_t length)
{
    unsigned char all = 0;
    for (size_t i = 0; i < length; i++)
        all |= (unsigned char)text[i];
    return all < 0x80;
}

static size_t character_size(const char *text, size_t length)
{
    uint32_t code;
    size_t size = text_character(text, length, &code);
    return size > 0 ? size : code;
}

/* Fills `blocks` for a text of less than 4 GiB. */
static int index_characters(struct text_encoding *encoding, struct error *error)
{
    struct text_places *places = encoding->places;
    places->is_ascii = is_ascii(encoding->text, encoding->length);
    if (places->is_ascii)
        return 0;
    size_t n_blocks = encoding->length / BLOCK_CHARACTERS + 1;
    if (grow((void **)&places->blocks, &places->blocks_capacity, n_blocks, sizeof *places->blocks, error) != 0)
        return -1;
    size_t characters = 0;
    for (size_t at = 0; at < encoding->length; characters++) {
        if (characters % BLOCK_CHARACTERS == 0)
            places->blocks[characters / BLOCK_CHARACTERS] = (uint32_t)at;
        at += character_size(encoding->text + at, encoding->length - at);
    }
    for (size_t i = (characters + BLOCK_CHARACTERS - 1) / BLOCK_CHARACTERS; i < n_blocks; i++)
        places->blocks[i] = (uint32_t)encoding->length;
    return 0;
}

/* Returns the byte at which a character begins. For an index beyond the last character, returns the end of the text. */
static size_t byte_of(const struct text_encoding *encoding, int64_t character)
{
    const struct text_places *places = encoding->places;
    size_t length = encoding->length;
    if (character < 0 || (uint64_t)character >= length)
        return character < 0 ? 0 : length;
    if (places->is_ascii)
        return (size_t)character;
    size_t at = places->blocks[character / BLOCK_CHARACTERS];
    for (int64_t i = 0; i < character % BLOCK_CHARACTERS && at < length; i++)
        at += character_size(encoding->text + at, length - at);
    return at;
}

static void file_token(const struct text_encoding *encoding, int64_t index, struct text_token *token)
{
    const struct text_codec *codec = encoding->codec;
    const struct encoded_token *found = &encoding->tokens.tokens[index];
    *token = (struct text_token){.id = found->id, .special = found->special};
    if (found->special) {
        token->text = tokenizer_token_text(codec->tokenizer, &encoding->tokens, (size_t)index, &token->length);
        token->text = token->text ? token->text : "";
        return;
    }
    token->begin = given_character(codec, encoding->places, found->begin);
    token->end = given_character(codec, encoding->places, found->end);
    size_t begin = byte_of(encoding, token->begin), end = byte_of(encoding, token->end);
    token->text = encoding->text + begin;
    token->length = end > begin ? end - begin : 0;
}

/* Sets *token to the next token of a codec for bytes. The range of a byte is the character to which it belongs. A
 * special token has no range. */
static void byte_token(struct text_encoding *encoding, struct text_token *token)
{
    struct text_places *places = encoding->places;
    size_t begin = places->at;
    if (begin == places->character_begin + places->character_size) {
        places->character_begin = begin;
        places->character_size = character_size(encoding->text + begin, encoding->length - begin);
        places->characters++;
    }
    *token = (struct text_token){
        .id = byte_tokenizer_next(encoding->codec->offset, encoding->text, encoding->length, &places->at)};
    token->special = byte_tokenizer_special(encoding->codec->offset, token->id);
    if (token->special) {
        token->text = encoding->text + begin;
        token->length = places->at - begin;
        places->characters += (int64_t)token->length - 1;
        places->character_size = token->length;
        return;
    }
    token->begin = places->characters - 1;
    token->end = places->characters;
    token->text = encoding->text + places->character_begin;
    token->length = places->character_size;
}

static int begin_tokens(struct text_encoding *encoding, struct error *error)
{
    if (open_places(encoding, error) != 0)
        return -1;
    struct text_places *places = encoding->places;
    if (encoding->codec->tokenizer)
        return index_characters(encoding, error);
    places->at = places->character_begin = places->character_size = 0;
    places->characters = 0;
    struct text_token skipped;
    for (int64_t i = 0; i < encoding->skip; i++)
        byte_token(encoding, &skipped);
    return 0;
}

int text_encoding_next(struct text_encoding *encoding, struct text_token *token, struct error *error)
{
    int64_t index = encoding->places ? encoding->places->next : 0;
    if (index == encoding->count)
        return 0;
    if (index == 0 && begin_tokens(encoding, error) != 0)
        return -1;
    if (encoding->codec->tokenizer)
        file_token(encoding, index, token);
    else
        byte_token(encoding, token);
    encoding->places->next++;
    return 1;
}

void text_encoding_free(struct text_encoding *encoding)
{
    if (encoding->places) {
        free(encoding->places->replaced);
        free(encoding->places->masks);
        free(encoding->places->blocks);
        free(encoding->places);
    }
    tokenizer_encoding_free(&encoding->tokens);
    *encoding = (struct text_encoding){0};
}
