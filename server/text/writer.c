#include "server/text/writer.h"

#include "config/config.h"
#include "server/text/float_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "base64 is of little-endian floats, read in place");

void writer_free(struct writer *writer)
{
    free(writer->data);
    *writer = (struct writer){0};
}

/* Makes room for `more` bytes after the text, and returns the address of this room. Returns NULL if the writer has
 * failed. */
static char *room(struct writer *writer, size_t more)
{
    if (writer->failed)
        return NULL;
    if (writer->capacity - writer->length >= more)
        return writer->data + writer->length;
    size_t wanted = writer->length + more;
    if (wanted < more) {
        writer->failed = true;
        return NULL;
    }
    if (wanted < writer->capacity + writer->capacity / 2)
        wanted = writer->capacity + writer->capacity / 2;
    if (wanted < 256)
        wanted = 256;
    char *data = realloc(writer->data, wanted);
    if (!data) {
        writer->failed = true;
        return NULL;
    }
    writer->data = data;
    writer->capacity = wanted;
    return data + writer->length;
}

void writer_reserve(struct writer *writer, size_t more)
{
    room(writer, more);
}

void writer_shrink(struct writer *writer)
{
    char *data = writer->length > 0 && writer->length < writer->capacity ? realloc(writer->data, writer->length) : NULL;
    if (!data)
        return;
    writer->data = data;
    writer->capacity = writer->length;
}

void writer_bytes(struct writer *writer, const char *bytes, size_t length)
{
    char *out = room(writer, length);
    if (!out || length == 0)
        return;
    memcpy(out, bytes, length);
    writer->length += length;
}

void writer_text(struct writer *writer, const char *text)
{
    writer_bytes(writer, text, strlen(text));
}

void writer_format(struct writer *writer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *out = length < 0 ? NULL : room(writer, (size_t)length + 1);
    if (!out) {
        writer->failed = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(out, (size_t)length + 1, format, arguments);
    va_end(arguments);
    writer->length += (size_t)length;
}

void writer_integer(struct writer *writer, int64_t value)
{
    char digits[24];
    int at = sizeof digits;
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    do
        digits[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (value < 0)
        digits[--at] = '-';
    writer_bytes(writer, digits + at, sizeof digits - (size_t)at);
}

static void write_escaped(struct writer *writer, unsigned char character)
{
    static const char hex[] = "0123456789abcdef";
    char escape[6] = {'\\', 'u', '0', '0', hex[character >> 4], hex[character & 15]};
    /* pairs of a character and the letter that follows the backslash in its escape */
    const char *names = "\"\"\\\\\bb\ff\nn\rr\tt";
    for (const char *pair = names; *pair; pair += 2) {
        if ((unsigned char)*pair == character) {
            escape[1] = pair[1];
            writer_bytes(writer, escape, 2);
            return;
        }
    }
    writer_bytes(writer, escape, 6);
}

void writer_string(struct writer *writer, const char *bytes, size_t length)
{
    const unsigned char *in = (const unsigned char *)bytes;
    size_t plain = 0, at = 0; /* bytes from `plain` to before `at` need no escape */
    writer_bytes(writer, "\"", 1);
    while (at < length) {
        if (in[at] >= 0x20 && in[at] < 0x7F && in[at] != '"' && in[at] != '\\') {
            at++;
            continue;
        }
        uint32_t code;
        size_t sequence = text_character(bytes + at, length - at, &code);
        if (sequence > 1) {
            at += sequence;
            continue;
        }
        writer_bytes(writer, bytes + plain, at - plain);
        if (sequence == 1)
            write_escaped(writer, in[at]);
        else
            writer_text(writer, "\xEF\xBF\xBD");
        at += sequence > 0 ? sequence : code;
        plain = at;
    }
    writer_bytes(writer, bytes + plain, at - plain);
    writer_bytes(writer, "\"", 1);
}

void writer_string0(struct writer *writer, const char *text)
{
    if (text)
        writer_string(writer, text, strlen(text));
    else
        writer_text(writer, "null");
}

void writer_float(struct writer *writer, float value)
{
    char *out = room(writer, F32_TEXT);
    if (out)
        writer->length += write_f32(out, value);
}

void writer_floats(struct writer *writer, const float *values, int64_t count)
{
    enum { AT_ONCE = 16 }; /* number of floats that are written for each call of room() */
    writer_bytes(writer, "[", 1);
    for (int64_t i = 0; i < count; i += AT_ONCE) {
        int64_t end = count - i < AT_ONCE ? count : i + AT_ONCE;
        char *out = room(writer, (size_t)(end - i) * (F32_TEXT + 1)), *at = out;
        if (!out)
            return;
        for (int64_t n = i; n < end; n++) {
            if (n > 0)
                *at++ = ',';
            at += write_f32(at, values[n]);
        }
        writer->length += (size_t)(at - out);
    }
    writer_bytes(writer, "]", 1);
}

/* Writes four characters for every three bytes, and fills the last group with '='. */
void writer_base64(struct writer *writer, const float *values, int64_t count)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *in = (const unsigned char *)values;
    size_t n_bytes = (size_t)count * 4, length = (n_bytes + 2) / 3 * 4;
    char *out = room(writer, length + 2);
    if (!out)
        return;
    writer->length += length + 2;
    *out++ = '"';
    for (; n_bytes >= 3; n_bytes -= 3, in += 3, out += 4) {
        uint32_t group = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
        out[0] = letters[group >> 18];
        out[1] = letters[group >> 12 & 63];
        out[2] = letters[group >> 6 & 63];
        out[3] = letters[group & 63];
    }
    if (n_bytes > 0) {
        uint32_t group = (uint32_t)in[0] << 16 | (n_bytes == 2 ? (uint32_t)in[1] << 8 : 0);
        out[0] = letters[group >> 18];
        out[1] = letters[group >> 12 & 63];
        out[2] = n_bytes == 2 ? letters[group >> 6 & 63] : '=';
        out[3] = '=';
        out += 4;
    }
    *out = '"';
}
