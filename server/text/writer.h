/* writer: text that grows, for answers. A writer that ran out of memory stays failed and takes the rest in silence, so
 * that the code of an answer reads straight on and looks once, at its end. */
#ifndef SERVER_WRITER_H
#define SERVER_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer {
    char *data; /* the owner frees it; zero the struct first */
    size_t length, capacity;
    bool failed;
};

void writer_free(struct writer *writer);
void writer_reserve(struct writer *writer, size_t more); /* an estimate spares copies; it need not hold */
void writer_shrink(struct writer *writer);               /* what is reserved and not used goes */
void writer_bytes(struct writer *writer, const char *bytes, size_t length);
void writer_text(struct writer *writer, const char *text); /* as it is */
void writer_format(struct writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void writer_integer(struct writer *writer, int64_t value);

/* A JSON string of the bytes; what is no UTF-8 becomes U+FFFD, one for each maximal wrong part. */
void writer_string(struct writer *writer, const char *bytes, size_t length);
void writer_string0(struct writer *writer, const char *text); /* NULL: null */

void writer_floats(struct writer *writer, const float *values, int64_t count); /* a JSON array; finite values */
void writer_base64(struct writer *writer, const float *values, int64_t count); /* a JSON string, little-endian f32 */

#endif
