/* characters: the properties of code points as Hugging Face's `tokenizers` sees them, and functions for UTF-8. */
#ifndef SERVER_CHARACTERS_H
#define SERVER_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The order of the bits must be the order of FLAGS in tests/tokenizers/unicode.py. */
enum character_flag {
    CHARACTER_SPACE = 1,      /* Unicode's property White_Space */
    CHARACTER_CONTROL = 2,    /* BertNormalizer removes the character */
    CHARACTER_NONSPACING = 4, /* BertNormalizer removes the accent */
    /* StripAccents removes the mark. Only characters with this flag have a combining class other than 0. */
    CHARACTER_MARK = 8,
    CHARACTER_PUNCTUATION = 16, /* Unicode's punctuation categories, or ASCII punctuation */
    CHARACTER_NUMERIC = 32,     /* the categories Nd, Nl and No in the Unicode version of Rust's standard library */
    CHARACTER_WORD = 64,        /* \w in a regular expression */
    CHARACTER_LETTER = 128,     /* \p{L} in a regular expression */
    CHARACTER_NUMBER = 256,     /* \p{N} in a regular expression */
    CHARACTER_DECOMPOSES = 512, /* NFKD changes the character */
};

#define CHARACTERS_DIRECT 0x20000
#define CHARACTER_REPLACEMENT 0xfffd

/* Flags of frequent code points. Each tokenizer owns one such table. After the table was filled, any thread may read
 * it. */
struct characters {
    uint16_t flags[CHARACTERS_DIRECT]; /* indexed by code point, for code points below CHARACTERS_DIRECT */
};

void characters_init(struct characters *characters);

/* Returns the flags of a code point that is not in the direct table. */
unsigned characters_search(uint32_t code);

static inline unsigned character_flags(const struct characters *characters, uint32_t code)
{
    return code < CHARACTERS_DIRECT ? characters->flags[code] : characters_search(code);
}

/* Returns a number for the character's script. 0 means that the character belongs to any script. */
unsigned character_script(uint32_t code);
uint32_t character_lower(uint32_t code);  /* returns U+0130 unchanged, because its lower case is two characters */
bool character_is_chinese(uint32_t code); /* true in the ranges that BERT counts as Chinese */

/* Returns the character of a byte in ByteLevel's alphabet. For example, '!' stays '!', and a space becomes U+0120. */
uint32_t character_of_byte(unsigned char byte);

/* Returns the byte for a character of ByteLevel's alphabet, or -1 if the character is not in this alphabet. */
int character_to_byte(uint32_t code);

/* Returns the character at text[*at] of valid UTF-8, and moves *at to the next character. */
static inline uint32_t utf8_next(const char *text, size_t *at)
{
    const unsigned char *bytes = (const unsigned char *)text + *at;
    uint32_t lead = bytes[0];
    if (lead < 0x80) {
        *at += 1;
        return lead;
    }
    if (lead < 0xe0) {
        *at += 2;
        return (lead & 0x1f) << 6 | (bytes[1] & 0x3fu);
    }
    if (lead < 0xf0) {
        *at += 3;
        return (lead & 0x0f) << 12 | (bytes[1] & 0x3fu) << 6 | (bytes[2] & 0x3fu);
    }
    *at += 4;
    return (lead & 0x07) << 18 | (bytes[1] & 0x3fu) << 12 | (bytes[2] & 0x3fu) << 6 | (bytes[3] & 0x3fu);
}

/* Returns the number of bytes of a character in valid UTF-8. `lead` is its first byte. */
static inline size_t utf8_size(unsigned char lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

static inline bool utf8_continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t utf8_write(uint32_t code, char bytes[4]); /* writes a code point as UTF-8. Returns the number of bytes */
bool utf8_is_valid(const char *text, size_t length);
bool text_is_ascii(const char *text, size_t length);
size_t utf8_count(const char *text, size_t length); /* returns the number of characters of valid UTF-8 */

#endif
