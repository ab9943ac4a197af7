/* characters: searches the tables of unicode_table.c, and reads UTF-8. */
#include "server/tokenizer/characters.h"

#include "config/config.h"
#include "server/tokenizer/unicode_table.h"

#include <string.h>

/* Returns the index of the run that contains the code point. */
static size_t run_find(const struct unicode_run *runs, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (runs[middle].first <= code)
            low = middle;
        else
            high = middle;
    }
    return low;
}

void characters_init(struct characters *characters)
{
    size_t run = 0;
    for (uint32_t code = 0; code < CHARACTERS_DIRECT; code++) {
        while (run + 1 < n_unicode_flags && unicode_flags[run + 1].first <= code)
            run++;
        characters->flags[code] = unicode_flags[run].value;
    }
}

unsigned characters_search(uint32_t code)
{
    return unicode_flags[run_find(unicode_flags, n_unicode_flags, code)].value;
}

unsigned character_script(uint32_t code)
{
    return unicode_scripts[run_find(unicode_scripts, n_unicode_scripts, code)].value;
}

uint32_t character_lower(uint32_t code)
{
    if (code < 0x80)
        return code >= 'A' && code <= 'Z' ? code + ('a' - 'A') : code;
    size_t low = 0, high = n_unicode_lowercase;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (unicode_lowercase[middle].from < code)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n_unicode_lowercase && unicode_lowercase[low].from == code ? unicode_lowercase[low].to : code;
}

bool character_is_chinese(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                  {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* Whether ByteLevel's alphabet maps the byte to the code point with the same number. This is true for the printable
 * bytes of Latin-1. The other bytes are mapped to U+0100 and the following code points, in order. */
static bool byte_is_printable(unsigned byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

uint32_t character_of_byte(unsigned char byte)
{
    if (byte_is_printable(byte))
        return byte;
    return byte < '!' ? 0x100u + byte : byte < 0xa1 ? 0x100u + '!' + (byte - 0x7fu) : 0x143;
}

int character_to_byte(uint32_t code)
{
    if (code < 0x100)
        return byte_is_printable(code) ? (int)code : -1;
    if (code < 0x100 + '!')
        return (int)code - 0x100;
    if (code < 0x143)
        return (int)code - 0x100 - '!' + 0x7f;
    return code == 0x143 ? 0xad : -1;
}

size_t utf8_write(uint32_t code, char bytes[4])
{
    if (code < 0x80) {
        bytes[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        bytes[0] = (char)(0xc0 | code >> 6);
        bytes[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        bytes[0] = (char)(0xe0 | code >> 12);
        bytes[1] = (char)(0x80 | (code >> 6 & 0x3f));
        bytes[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    bytes[0] = (char)(0xf0 | code >> 18);
    bytes[1] = (char)(0x80 | (code >> 12 & 0x3f));
    bytes[2] = (char)(0x80 | (code >> 6 & 0x3f));
    bytes[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* Returns the number of ASCII bytes at the start of the text. */
static size_t ascii_length(const char *text, size_t length)
{
    size_t at = 0;
    for (uint64_t word; length - at >= sizeof word; at += sizeof word) {
        memcpy(&word, text + at, sizeof word);
        if (word & 0x8080808080808080u)
            break;
    }
    while (at < length && !(text[at] & 0x80))
        at++;
    return at;
}

bool text_is_ascii(const char *text, size_t length)
{
    return ascii_length(text, length) == length;
}

bool utf8_is_valid(const char *text, size_t length)
{
    for (size_t at = ascii_length(text, length); at < length; at += ascii_length(text + at, length - at)) {
        uint32_t code;
        size_t size = text_character(text + at, length - at, &code);
        if (size == 0)
            return false;
        at += size;
    }
    return true;
}

size_t utf8_count(const char *text, size_t length)
{
    size_t count = 0;
    for (size_t i = 0; i < length; i++)
        count += !utf8_continues(text[i]);
    return count;
}
