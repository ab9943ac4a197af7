#include "config/config.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Of an error_prefix(): so that a long path leaves room for what is wrong with it. */
#define PREFIX_BYTES 256

/* Bytes of the well-formed UTF-8 sequence at the start of a terminated string; 0: there is none. */
static size_t character_length(const unsigned char *text)
{
    if (text[0] < 0x80)
        return 1;
    size_t length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xf0 && text[1] < 0x90);
    bool surrogate = text[0] == 0xed && text[1] > 0x9f;
    bool too_large = text[0] == 0xf4 && text[1] > 0x8f;
    return overlong || surrogate || too_large ? 0 : length;
}

static bool is_control(const unsigned char *text)
{
    return text[0] < 0x20 || text[0] == 0x7f || (text[0] == 0xc2 && text[1] < 0xa0);
}

/* Names in a message come from files and command lines. What is no UTF-8 would break a JSON answer; a control
 * character could forge a line of the log or steer a terminal. Each such byte becomes a question mark. */
static void make_printable(char *text)
{
    unsigned char *at = (unsigned char *)text;
    while (*at) {
        size_t length = character_length(at);
        if (length == 0 || is_control(at)) {
            *at = '?';
            length = 1;
        }
        at += length;
    }
}

/* Takes an unfinished character off the end of a text that was cut after `length` bytes. */
static void drop_partial_character(char *text, size_t length)
{
    size_t lead = length;
    while (lead > 0 && length - lead < 3 && ((unsigned char)text[lead - 1] & 0xc0) == 0x80)
        lead--;
    if (lead > 0 && (unsigned char)text[lead - 1] >= 0xc0 && character_length((unsigned char *)text + lead - 1) == 0)
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
    char message[sizeof error->message]; /* apart, for one of the values may be the old message */
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
