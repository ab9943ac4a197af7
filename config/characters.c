/* characters: UTF-8, and lists of names in a buffer of fixed size. */
#include "config/config.h"

#include <stdio.h>
#include <string.h>

size_t text_character(const char *text, size_t length, uint32_t *code)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned char lead = bytes[0];
    size_t wanted = lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint32_t value = wanted == 1 ? lead : lead & (0x7fu >> wanted);
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4) {
        *code = 1;
        return 0;
    }
    for (size_t i = 1; i < wanted; i++) {
        unsigned char low = 0x80, high = 0xbf;
        if (i == 1) { /* excludes overlong forms, surrogates, and code points beyond U+10FFFF */
            low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
            high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
        }
        if (i >= length || bytes[i] < low || bytes[i] > high) {
            *code = (uint32_t)i;
            return 0;
        }
        value = value << 6 | (bytes[i] & 0x3fu);
    }
    *code = value;
    return wanted;
}

void text_list_add(char *buffer, size_t size, const char *item)
{
    size_t used = strlen(buffer);
    if (used + strlen(item) + 3 <= size)
        snprintf(buffer + used, size - used, "%s%s", used ? ", " : "", item);
}
