/* base64: decodes base64 (RFC 4648). Clients use base64 to put files into JSON. Any thread may call base64_read. */
#ifndef SERVER_BASE64_H
#define SERVER_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* The maximum number of bytes that a text of `length` characters encodes. */
#define BASE64_MAX_BYTES(length) ((length) / 4 * 3 + 3)

/* Writes the bytes of a base64 text to `out`, which must have room for BASE64_MAX_BYTES(length) bytes. CR, LF, tabs and
 * spaces are skipped, because encoders break lines. The padding may be absent. Returns true, and sets *size to the
 * number of bytes. If the text is invalid, returns false, and sets *size to the index of the first wrong character. The
 * index is `length` if the text ends within a group of four characters. */
bool base64_read(const char *text, size_t length, unsigned char *out, size_t *size);

#endif
