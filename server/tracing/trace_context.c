#include "server/tracing/trace_context.h"

#include <string.h>

/* The header has the form "VV-TRACE-SPAN-FF": version, trace id, span id and flags, in lower-case hexadecimal
 * digits. */
enum { VERSION_AT = 0, TRACE_AT = 3, SPAN_AT = 36, FLAGS_AT = 53, HEADER_LENGTH = 55 };

static int digit_value(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* Reads 2 * count hexadecimal digits. Returns false if a character is not such a digit. */
static bool read_digits(const char *text, unsigned char *bytes, int count)
{
    for (int i = 0; i < count; i++) {
        int high = digit_value(text[2 * i]), low = digit_value(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static bool is_zero(const unsigned char *bytes, int count)
{
    int bits = 0;
    for (int i = 0; i < count; i++)
        bits |= bytes[i];
    return bits == 0;
}

/* Headers with a version above 00 may be longer. Version ff, and ids with only zeros, are invalid. */
bool trace_context_parse(const char *header, struct trace_context *context)
{
    unsigned char version, flags;
    if (!header || strnlen(header, HEADER_LENGTH) < HEADER_LENGTH)
        return false;
    if (header[TRACE_AT - 1] != '-' || header[SPAN_AT - 1] != '-' || header[FLAGS_AT - 1] != '-')
        return false;
    if (!read_digits(header + VERSION_AT, &version, 1) || !read_digits(header + FLAGS_AT, &flags, 1) ||
        !read_digits(header + TRACE_AT, context->trace_id, TRACE_ID_BYTES) ||
        !read_digits(header + SPAN_AT, context->span_id, SPAN_ID_BYTES))
        return false;
    if (version == 0xff || (version == 0 && header[HEADER_LENGTH] != '\0'))
        return false;
    context->sampled = flags & 1;
    return !is_zero(context->trace_id, TRACE_ID_BYTES) && !is_zero(context->span_id, SPAN_ID_BYTES);
}

void trace_digits(char *text, const unsigned char *bytes, int count)
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < count; i++) {
        text[2 * i] = digits[bytes[i] >> 4];
        text[2 * i + 1] = digits[bytes[i] & 15];
    }
    text[2 * count] = '\0';
}
