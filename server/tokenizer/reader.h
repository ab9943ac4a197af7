/* reader: tokenizer.json in two parts. The vocabulary and the merges, which may be large, are read as a stream. All the
 * rest is a small JSON tree. */
#ifndef SERVER_READER_H
#define SERVER_READER_H

#include "config/config.h"

#include <jansson.h>

/* Where a stream reads. `text` receives strings, and grows. */
struct json_stream {
    const char *at, *end;
    char *text; /* the latest string; NULL at first; freed by cursor_free */
    size_t length, capacity;
    bool failed; /* memory is out */
};

/* The file without model.vocab and model.merges, which are null in it. */
struct reader {
    json_t *root;
    struct json_stream vocab, merges; /* at NULL: the file has none */
};

/* `json` must outlive the reader. Messages have line and column where there is one. After success reader_close is
 * owed. */
int reader_open(const char *json, size_t length, struct reader *reader, struct error *error);
void reader_close(struct reader *reader);

/* Each skips white space first, and returns false when something else is there. */
bool cursor_take(struct json_stream *cursor, char wanted);
bool cursor_string(struct json_stream *cursor); /* sets text and length; also false when memory is out */
bool cursor_integer(struct json_stream *cursor, int64_t *value); /* not negative, below 2^53 */

/* A number as serde_json, the reader of `tokenizers`, computes it: up to one rounding more than the nearest double. The
 * last bit decides between two segmentations of the same score. */
bool cursor_number(struct json_stream *cursor, double *value);
bool cursor_at_end(struct json_stream *cursor);
void cursor_free(struct json_stream *cursor);

/* ---- Parts: objects of the small tree. `where` names the object in messages. ---- */
/* Refuses keys that are not among the allowed ones, a list that NULL ends. */
int part_keys(const json_t *part, const char *where, const char *const *allowed, struct error *error);

/* Each reads a key. Without the key the value stays as it is, or with `required` that is an error. */
int part_bool(const json_t *part, const char *where, const char *key, bool required, bool *value, struct error *error);
int part_integer(const json_t *part, const char *where, const char *key, bool required, int64_t least, int64_t *value,
                 struct error *error);

/* The text is borrowed from the tree, and may hold NUL. With `nullable` null is read as NULL. */
int part_text(const json_t *part, const char *where, const char *key, bool required, bool nullable, const char **text,
              size_t *length, struct error *error);
int part_character(const json_t *part, const char *where, const char *key, uint32_t *code, struct error *error);

/* The type of a part. NULL: the part is no object, or has no type that is a string; the message says so. */
const char *part_type(const json_t *part, const char *where, struct error *error);

/* A choice among names, which NULL ends. Sets *index. */
int part_choice(const json_t *part, const char *where, const char *key, bool required, const char *const *names,
                int *index, struct error *error);

#endif
