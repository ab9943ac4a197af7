/* precompiled: replaces each grapheme cluster of less than 6 bytes as a whole if it begins with a key of the table.
 * Otherwise replaces its characters one by one, as `tokenizers` does. */
#include "server/tokenizer/precompiled.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#define MAX_CLUSTER_BYTES 5
#define UNIT_BYTES 4

static int base64_value(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

/* Decodes base64 with padding. Returns -1 if the text is not valid base64. */
static int decode_base64(const char *base64, size_t length, char *bytes, size_t *count)
{
    *count = 0;
    if (length % 4 != 0)
        return -1;
    size_t padding = length > 0 && base64[length - 1] == '=' ? 1 + (base64[length - 2] == '=') : 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < length - padding; i++) {
        int value = base64_value(base64[i]);
        if (value < 0)
            return -1;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 != 0)
            bytes[(*count)++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    return 0;
}

static uint32_t unit_at(const struct precompiled *precompiled, size_t index)
{
    const unsigned char *bytes = (const unsigned char *)precompiled->table + UNIT_BYTES + index * UNIT_BYTES;
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

int precompiled_read(const char *base64, size_t length, const char *where, struct precompiled *precompiled,
                     struct error *error)
{
    *precompiled = (struct precompiled){.table = malloc(length / 4 * 3 + UNIT_BYTES + 1)};
    if (!precompiled->table)
        return error_set(error, "%s: out of memory", where);
    size_t count;
    if (decode_base64(base64, length, precompiled->table, &count) != 0 || count < UNIT_BYTES) {
        precompiled_free(precompiled);
        return error_set(error, "%s: precompiled_charsmap: expected at least %d bytes in base64", where, UNIT_BYTES);
    }
    const unsigned char *bytes = (const unsigned char *)precompiled->table;
    size_t size = bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 24;
    precompiled->units = size / UNIT_BYTES;
    if (precompiled->units == 0 || precompiled->units * UNIT_BYTES > count - UNIT_BYTES) {
        precompiled_free(precompiled);
        return error_set(error, "%s: precompiled_charsmap: expected a table of 4 to %zu bytes, found %zu", where,
                         count - UNIT_BYTES, size);
    }
    size_t begin = UNIT_BYTES + precompiled->units * UNIT_BYTES;
    precompiled->texts = precompiled->table + begin;
    precompiled->texts_length = count - begin;
    if (utf8_is_valid(precompiled->texts, precompiled->texts_length))
        return 0;
    precompiled_free(precompiled);
    return error_set(error, "%s: precompiled_charsmap: expected replacements in UTF-8", where);
}

void precompiled_free(struct precompiled *precompiled)
{
    free(precompiled->table);
    *precompiled = (struct precompiled){0};
}

/* Sets *unit to the unit at index `at`. Returns false if the table is damaged. */
static bool move_to(const struct precompiled *precompiled, size_t at, uint32_t *unit)
{
    if (at >= precompiled->units)
        return false;
    *unit = unit_at(precompiled, at);
    return true;
}

static size_t unit_offset(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

/* Returns the replacement of the shortest key with which the bytes begin, or NULL if there is none. */
static const char *find(const struct precompiled *precompiled, const char *bytes, size_t length, size_t *found_length)
{
    uint32_t unit;
    if (!move_to(precompiled, 0, &unit))
        return NULL;
    size_t at = unit_offset(unit);
    for (size_t i = 0; i < length && bytes[i] != '\0'; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        at ^= byte;
        if (!move_to(precompiled, at, &unit) || (unit & (1u << 31 | 0xff)) != byte)
            return NULL;
        at ^= unit_offset(unit);
        if (!(unit >> 8 & 1))
            continue;
        size_t text = move_to(precompiled, at, &unit) ? unit & ~(1u << 31) : SIZE_MAX;
        if (text > precompiled->texts_length ||
            (text < precompiled->texts_length && utf8_continues(precompiled->texts[text])))
            return NULL;
        *found_length = strnlen(precompiled->texts + text, precompiled->texts_length - text);
        return precompiled->texts + text;
    }
    return NULL;
}

/* The last character of the new text. It is not written yet, because the next replacement may make it remove more
 * characters of the old text. */
struct waiting {
    struct transform *transform;
    uint32_t code;
    long change;
    bool any;
};

static void waiting_flush(struct waiting *waiting)
{
    if (waiting->any)
        transform_put(waiting->transform, waiting->code, waiting->change);
    waiting->any = false;
}

static void waiting_put(struct waiting *waiting, uint32_t code, long change)
{
    waiting_flush(waiting);
    waiting->code = code;
    waiting->change = change;
    waiting->any = true;
}

/* Replaces `old` by `text`. If `text` has more characters, its last characters count as inserted. If it has fewer, its
 * last character also removes the remaining characters of `old`. If `text` is empty, the character before it removes
 * the characters of `old`. */
static void replace(struct waiting *waiting, const char *old, size_t old_length, const char *text, size_t length)
{
    long more = (long)utf8_count(text, length) - (long)utf8_count(old, old_length);
    long left = (long)utf8_count(text, length);
    for (size_t at = 0; at < length; left--)
        waiting_put(waiting, utf8_next(text, &at), left <= more ? 1 : 0);
    if (more < 0 && waiting->any)
        waiting->change += more;
}

static void put_cluster(const struct precompiled *precompiled, struct waiting *waiting, const char *bytes,
                        size_t length)
{
    size_t found_length;
    const char *found = length <= MAX_CLUSTER_BYTES ? find(precompiled, bytes, length, &found_length) : NULL;
    if (found) {
        replace(waiting, bytes, length, found, found_length);
        return;
    }
    for (size_t at = 0; at < length;) {
        size_t begin = at;
        uint32_t code = utf8_next(bytes, &at);
        found = find(precompiled, bytes + begin, at - begin, &found_length);
        if (found)
            replace(waiting, bytes + begin, at - begin, found, found_length);
        else
            waiting_put(waiting, code, 0);
    }
}

int precompiled_put(const struct precompiled *precompiled, struct transform *transform)
{
    const struct view *from = &transform->from;
    struct waiting waiting = {.transform = transform};
    utf8proc_int32_t state = 0;
    uint32_t last = 0;
    size_t begin = 0;
    for (size_t at = 0; at < from->length;) {
        size_t here = at;
        uint32_t code = utf8_next(from->bytes, &at);
        if (here > 0 && utf8proc_grapheme_break_stateful((utf8proc_int32_t)last, (utf8proc_int32_t)code, &state)) {
            put_cluster(precompiled, &waiting, from->bytes + begin, here - begin);
            begin = here;
        }
        last = code;
    }
    put_cluster(precompiled, &waiting, from->bytes + begin, from->length - begin);
    waiting_flush(&waiting);
    return transform->to->failed ? -1 : 0;
}
