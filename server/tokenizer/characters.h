/* characters: the properties of code points as Hugging Face's `tokenizers` sees them, and functions for UTF-8. */
#ifndef SERVER_CHARACTERS_H
#define SERVER_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The order of the bits is that of FLAGS in tests/tokenizers/unicode.py. */
enum character_flag {
    CHARACTER_SPACE = 1,        /* White_Space */
    CHARACTER_CONTROL = 2,      /* BertNormalizer removes the character */
    CHARACTER_NONSPACING = 4,   /* BertNormalizer removes the accent */
    CHARACTER_MARK = 8,         /* StripAccents removes the mark. Only marks have a combining class */
    CHARACTER_PUNCTUATION = 16, /* Unicode's punctuation categories, or ASCII punctuation */
    CHARACTER_NUMERIC = 32,     /* the categories Nd, Nl, No in Rust's version of Unicode */
    CHARACTER_WORD = 64,        /* \w */
    CHARACTER_LETTER = 128,     /* \p{L} */
    CHARACTER_NUMBER = 256,     /* \p{N} */
    CHARACTER_DECOMPOSES = 512, /* NFKD changes the character */
};

#define CHARACTERS_DIRECT 0x20000
#define CHARACTER_REPLACEMENT 0xfffd

/* Each tokenizer has one of these. After it was filled, any thread may read it. */
struct characters {
    uint16_t flags[CHARACTERS_DIRECT]; /* by code point, below CHARACTERS_DIRECT */
};

void characters_init(struct characters *characters);

/* Flags of a code point beyond the direct table. */
unsigned characters_search(uint32_t code);

static inline unsigned character_flags(const struct characters *characters, uint32_t code)
{
    return code < CHARACTERS_DIRECT ? characters->flags[code] : characters_search(code);
}

unsigned character_script(uint32_t code); /* a number for the script. 0 means any script */
uint32_t character_lower(uint32_t code);  /* returns U+0130 unchanged, because its lower case is two characters */
bool character_is_chinese(uint32_t code); /* true in the ranges that BERT counts as Chinese */

/* The character of a byte in the alphabet of ByteLevel: '!' is itself, a space is U+0120. */
uint32_t character_of_byte(unsigned char byte);

/* The byte for a character of this alphabet. -1 if the character is not in the alphabet. */
int character_to_byte(uint32_t code);

/* Reads the character at text[*at] of valid UTF-8, and moves *at to the next character. */
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

/* The number of bytes of a character in valid UTF-8, given its first byte. */
static inline size_t utf8_size(unsigned char lead)
{
    return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

static inline bool utf8_continues(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

size_t utf8_write(uint32_t code, char bytes[4]); /* returns the number of bytes */
bool utf8_is_valid(const char *text, size_t length);
bool text_is_ascii(const char *text, size_t length);
size_t utf8_count(const char *text, size_t length); /* number of characters of valid UTF-8 */

#endif
