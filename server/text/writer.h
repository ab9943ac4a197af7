/* writer: a growing text, used for answers. If memory runs out, the writer is marked as failed and ignores all further
 * calls. So code that writes an answer needs to check `failed` only once, at the end. */
#ifndef SERVER_WRITER_H
#define SERVER_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer {
    char *data; /* NULL in a new writer, which is a zeroed struct. writer_free frees it */
    size_t length, capacity;
    bool failed;
};

void writer_free(struct writer *writer);
void writer_reserve(struct writer *writer, size_t more); /* `more` may be an estimate. Reserving avoids copies later */
void writer_shrink(struct writer *writer);               /* frees reserved memory that is unused */
void writer_bytes(struct writer *writer, const char *bytes, size_t length);
void writer_text(struct writer *writer, const char *text); /* writes the text unchanged, without escapes */
void writer_format(struct writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void writer_integer(struct writer *writer, int64_t value);

/* Writes the bytes as a JSON string. Each maximal part that is not valid UTF-8 becomes one U+FFFD. */
void writer_string(struct writer *writer, const char *bytes, size_t length);
void writer_string0(struct writer *writer, const char *text); /* writes null for NULL */

void writer_float(struct writer *writer, float value); /* must be finite */
/* Writes a JSON array. The values must be finite. */
void writer_floats(struct writer *writer, const float *values, int64_t count);
/* Writes a JSON string of the values as little-endian f32. */
void writer_base64(struct writer *writer, const float *values, int64_t count);

#endif
