#include "server/text/base64.h"

#include <stdint.h>

/* Returns the value of a letter, 0 to 63, or -1 for a character that is not a letter of base64. */
static int value_of(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return letter - 'A';
    if (letter >= 'a' && letter <= 'z')
        return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9')
        return letter - '0' + 52;
    return letter == '+' ? 62 : letter == '/' ? 63 : -1;
}

static bool is_space(char letter)
{
    return letter == '\r' || letter == '\n' || letter == '\t' || letter == ' ';
}

/* Whether only padding and spaces follow from *at on. If other characters follow, sets *at to the first of them.
 * Padding may be absent. If not, it is two characters after a last group of 2 letters, and one after 3 letters. */
static bool ends(const char *text, size_t length, size_t letters, size_t *at)
{
    size_t padding = 0, most = letters % 4 == 2 ? 2 : letters % 4 == 3 ? 1 : 0;
    for (; *at < length; ++*at) {
        if (is_space(text[*at]))
            continue;
        if (text[*at] != '=' || ++padding > most)
            return false;
    }
    return padding == 0 || padding == most;
}

bool base64_read(const char *text, size_t length, unsigned char *out, size_t *size)
{
    size_t letters = 0, written = 0, at = 0;
    uint32_t bits = 0; /* bits of the letters that were read. The lowest bits are not written yet */
    for (; at < length && text[at] != '='; at++) {
        int value = value_of(text[at]);
        if (value < 0 && !is_space(text[at])) {
            *size = at;
            return false;
        }
        if (value < 0)
            continue;
        bits = bits << 6 | (uint32_t)value;
        if (letters++ % 4 > 0)
            out[written++] = (unsigned char)(bits >> (6 - 2 * ((letters - 1) % 4)));
    }
    if (!ends(text, length, letters, &at) || letters % 4 == 1) {
        *size = at;
        return false;
    }
    *size = written;
    return true;
}
