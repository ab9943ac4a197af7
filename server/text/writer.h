/* writer: a growing text, used for answers. If memory runs out, the writer is marked as failed and ignores all further
 * calls. So the caller needs to check `failed` only once, after the whole text is written. */
#ifndef SERVER_WRITER_H
#define SERVER_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct writer {
    char *data; /* the text (length). NULL in a new writer, which is a zeroed struct. writer_free frees the text */
    size_t length, capacity;
    bool failed;
};

void writer_free(struct writer *writer);
/* Makes room for `more` bytes, which may be an estimate, to avoid copies later. */
void writer_reserve(struct writer *writer, size_t more);
void writer_shrink(struct writer *writer); /* frees the unused part of the memory */
void writer_bytes(struct writer *writer, const char *bytes, size_t length);
void writer_text(struct writer *writer, const char *text); /* writes the text unchanged, without escapes */
void writer_format(struct writer *writer, const char *format, ...) __attribute__((format(printf, 2, 3)));
void writer_integer(struct writer *writer, int64_t value);

/* Writes the bytes as a JSON string. Each maximal sequence of bytes that is not valid UTF-8 becomes one U+FFFD. */
void writer_string(struct writer *writer, const char *bytes, size_t length);
/* Writes `text` as a JSON string, or null if it is NULL. */
void writer_string0(struct writer *writer, const char *text);

void writer_float(struct writer *writer, float value); /* writes a JSON number. The value must be finite */
/* Writes a JSON array. The values must be finite. */
void writer_floats(struct writer *writer, const float *values, int64_t count);
/* Writes a JSON string with the base64 text of the values, which are stored as little-endian f32. */
void writer_base64(struct writer *writer, const float *values, int64_t count);

#endif
