/* reader: reads tokenizer.json in two ways. The vocabulary and the list of merges may be large, so they are read as
 * streams. The rest of the file is parsed to a small JSON tree. */
#ifndef SERVER_READER_H
#define SERVER_READER_H

#include "config/config.h"

#include <jansson.h>

/* Text of the file, and a position in it. `text` receives strings, and grows. */
struct json_stream {
    const char *at, *end;
    char *text; /* the latest string, or NULL at first. cursor_free frees it */
    size_t length, capacity;
    bool failed; /* memory is lacking */
};

/* The JSON tree of the file, in which model.vocab and model.merges are null. */
struct reader {
    json_t *root;
    struct json_stream vocab, merges; /* `at` is NULL if the file lacks the vocabulary or the merges */
};

/* `json` must outlive the reader. Messages contain line and column if known. After success the caller must call
 * reader_close. */
int reader_open(const char *json, size_t length, struct reader *reader, struct error *error);
void reader_close(struct reader *reader);

/* These functions first skip white space. They return false if the text is not what they read. */
bool cursor_take(struct json_stream *cursor, char wanted);
bool cursor_string(struct json_stream *cursor); /* sets text and length. Also returns false if memory is lacking */
bool cursor_integer(struct json_stream *cursor, int64_t *value); /* reads an integer from 0 to 2^53 - 1 */

/* Reads a number with the same bits as serde_json, the JSON reader of `tokenizers`. serde_json may round once more than
 * necessary. The last bit matters, because it may decide between two segmentations with nearly the same score. */
bool cursor_number(struct json_stream *cursor, double *value);
bool cursor_at_end(struct json_stream *cursor);
void cursor_free(struct json_stream *cursor);

/* ---- Parts: objects of the JSON tree. `where` names the object in messages ---- */
/* Fails if the object has a key that is not in the list `allowed`. NULL ends the list. */
int part_keys(const json_t *part, const char *where, const char *const *allowed, struct error *error);

/* These functions read the value of a key. If the object lacks the key, the value stays unchanged, or with `required`
 * they fail. */
int part_bool(const json_t *part, const char *where, const char *key, bool required, bool *value, struct error *error);
int part_integer(const json_t *part, const char *where, const char *key, bool required, int64_t least, int64_t *value,
                 struct error *error);

/* The text is borrowed from the tree, and may contain NUL. If `nullable`, null is read as NULL. */
int part_text(const json_t *part, const char *where, const char *key, bool required, bool nullable, const char **text,
              size_t *length, struct error *error);
int part_character(const json_t *part, const char *where, const char *key, uint32_t *code, struct error *error);

/* The value of the key "type". Returns NULL with a message if the part is not an object, or if "type" is not a string.
 */
const char *part_type(const json_t *part, const char *where, struct error *error);

/* Reads one of several names, and sets *index. NULL ends the list of names. */
int part_choice(const json_t *part, const char *where, const char *key, bool required, const char *const *names,
                int *index, struct error *error);

#endif
