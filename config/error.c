/* error: writes messages, which are always printable UTF-8. */
#include "config/config.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Limit for the bytes that error_prefix() adds, so that a long path leaves room for the message. */
#define PREFIX_BYTES 256

static bool is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7f && code < 0xa0);
}

/* Replaces bytes that are not UTF-8 and control characters by question marks. Names in a message come from files and
 * command lines. Bytes that are not UTF-8 would make a JSON answer invalid. Control characters could forge a log line,
 * or control a terminal. */
static void make_printable(char *text)
{
    while (*text) {
        uint32_t code;
        size_t length = text_character(text, SIZE_MAX, &code);
        if (length == 0) {
            *text = '?';
            length = 1;
        } else if (is_control(code)) {
            memset(text, '?', length);
        }
        text += length;
    }
}

/* Removes an incomplete character from the end of a text that was cut after `length` bytes. */
static void drop_partial_character(char *text, size_t length)
{
    size_t lead = length;
    uint32_t code;
    while (lead > 0 && length - lead < 3 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (lead > 0 && (unsigned char)text[lead - 1] >= 0xc0 && text_character(text + lead - 1, SIZE_MAX, &code) == 0)
        text[lead - 1] = '\0';
}

static void format_message(char *buffer, size_t size, const char *format, va_list values)
{
    int length = vsnprintf(buffer, size, format, values);
    if (length < 0)
        buffer[0] = '\0';
    else if ((size_t)length >= size)
        drop_partial_character(buffer, size - 1);
    make_printable(buffer);
}

int error_set(struct error *error, const char *format, ...)
{
    assert(error);
    char message[sizeof error->message]; /* a separate buffer, because an argument may be the old message */
    va_list values;
    va_start(values, format);
    format_message(message, sizeof message, format, values);
    va_end(values);
    memcpy(error->message, message, strlen(message) + 1);
    return -1;
}

int error_prefix(struct error *error, const char *format, ...)
{
    assert(error);
    char where[PREFIX_BYTES];
    va_list values;
    va_start(values, format);
    format_message(where, sizeof where, format, values);
    va_end(values);
    return error_set(error, "%s: %s", where, error->message);
}
