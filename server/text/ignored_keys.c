/* ignored_keys: keeps a list of names that is short and safe enough for a header. */
#include "server/text/ignored_keys.h"

#include <stdio.h>
#include <string.h>

static const char between[] = ", ", rest[] = "...";
enum { BETWEEN = sizeof between - 1, REST = sizeof rest - 1 };

/* Maximum length of an escaped name, in bytes. A longer name does not fit in the list. */
enum { NAME_BYTES = IGNORED_KEYS_BYTES - BETWEEN - REST };

/* Writes the escaped name. Returns its length, or 0 if the name does not fit in the list. */
static size_t escape(const char *name, char escaped[NAME_BYTES])
{
    size_t length = 0;
    for (const unsigned char *at = (const unsigned char *)name; *at; at++) {
        bool plain = *at > ' ' && *at < 0x7F && *at != ',' && *at != '%';
        if (length + 3 >= NAME_BYTES)
            return 0;
        length += (size_t)snprintf(escaped + length, 4, plain ? "%c" : "%%%02X", *at);
    }
    return length;
}

static bool has(const struct ignored_keys *keys, const char *name, size_t length)
{
    for (const char *at = keys->list; *at; at += *at ? BETWEEN : 0) {
        size_t found = strcspn(at, ",");
        if (found == length && memcmp(at, name, length) == 0)
            return true;
        at += found;
    }
    return false;
}

static void append(struct ignored_keys *keys, const char *name, size_t length)
{
    if (keys->length > 0) {
        memcpy(keys->list + keys->length, between, BETWEEN);
        keys->length += BETWEEN;
    }
    memcpy(keys->list + keys->length, name, length);
    keys->length += length;
    keys->list[keys->length] = '\0';
}

void ignored_keys_add(struct ignored_keys *keys, const char *name)
{
    char escaped[NAME_BYTES];
    size_t length = escape(*name ? name : "\"\"", escaped);
    if (has(keys, rest, REST) || (length > 0 && has(keys, escaped, length)))
        return;
    /* Room for `rest` and the final NUL must remain after each name. */
    if (length > 0 && keys->length + BETWEEN + length + BETWEEN + REST < IGNORED_KEYS_BYTES)
        append(keys, escaped, length);
    else
        append(keys, rest, REST);
}
