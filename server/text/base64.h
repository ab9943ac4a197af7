/* base64: reads RFC 4648 base64, as clients put files into JSON. Any thread. */
#ifndef SERVER_BASE64_H
#define SERVER_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* Most bytes that `length` characters stand for. */
#define BASE64_MOST(length) ((length) / 4 * 3 + 3)

/* Writes the bytes of a base64 text to `out`, which has room for BASE64_MOST(length). CR, LF, tabs and spaces are
 * skipped, because encoders break lines. The padding may be absent. Returns true and sets *size to the number of bytes.
 * False: *size is the index of the first wrong character; `length`: the text ends within a group. */
bool base64_read(const char *text, size_t length, unsigned char *out, size_t *size);

#endif
