/* reader: reads tokenizer.json in two ways. The vocabulary and the list of merges may be large, so they are read as
 * streams. The rest of the file is parsed to a small JSON tree. */
#ifndef SERVER_READER_H
#define SERVER_READER_H

#include "config/config.h"

#include <jansson.h>

/* A cursor: the text of the file from `at` to `end`, and the latest string that was read. */
struct json_stream {
    const char *at, *end;
    char *text; /* the latest string (length). NULL before the first string. cursor_free frees it */
    size_t length, capacity;
    bool failed; /* memory is lacking */
};

/* The JSON tree of the file, with null for model.vocab and model.merges, and cursors for these two. */
struct reader {
    json_t *root;
    struct json_stream vocab, merges; /* `at` is NULL if the file does not contain the member */
};

/* Opens a tokenizer.json. `json` must outlive the reader. A message about JSON syntax contains line and column. After
 * success the caller must call reader_close. */
int reader_open(const char *json, size_t length, struct reader *reader, struct error *error);
void reader_close(struct reader *reader);

/* These functions first skip white space. They return false if something else follows than the function reads. */
bool cursor_take(struct json_stream *cursor, char wanted);
bool cursor_string(struct json_stream *cursor); /* sets `text` and `length`. Also returns false if memory is lacking */
bool cursor_integer(struct json_stream *cursor, int64_t *value); /* reads an integer from 0 to 10 * 2^49 - 1 */

/* Reads a number to the same bits as serde_json, the JSON reader of `tokenizers`. serde_json may round once more than
 * necessary. The last bit matters, because it can decide between two segmentations with nearly the same score. */
bool cursor_number(struct json_stream *cursor, double *value);
bool cursor_at_end(struct json_stream *cursor);
void cursor_free(struct json_stream *cursor);

/* ---- Objects of the JSON tree, called parts. `where` names the part in messages ---- */
/* Fails if the object has a key that is not in the list `allowed`. NULL ends the list. */
int part_keys(const json_t *part, const char *where, const char *const *allowed, struct error *error);

/* These functions read the value of a key. If the part lacks the key, the value stays unchanged. If `required` is true,
 * a missing key is an error. */
int part_bool(const json_t *part, const char *where, const char *key, bool required, bool *value, struct error *error);
int part_integer(const json_t *part, const char *where, const char *key, bool required, int64_t least, int64_t *value,
                 struct error *error);

/* Sets *text to a string in the tree, which may contain NUL. If `nullable` is true, null is accepted, and leaves *text
 * unchanged. */
int part_text(const json_t *part, const char *where, const char *key, bool required, bool nullable, const char **text,
              size_t *length, struct error *error);
int part_character(const json_t *part, const char *where, const char *key, uint32_t *code, struct error *error);

/* Returns the value of the key "type". Returns NULL and sets the error if the part is not an object, or if "type" is
 * not a string. */
const char *part_type(const json_t *part, const char *where, struct error *error);

/* Reads a string that must be one of `names`, and sets *index to its position in the list. NULL ends the list. */
int part_choice(const json_t *part, const char *where, const char *key, bool required, const char *const *names,
                int *index, struct error *error);

#endif
