/* decoder: joins the texts of tokens to one text. */
#ifndef SERVER_DECODER_H
#define SERVER_DECODER_H

#include "server/tokenizer/characters.h"

#include "config/config.h"

#include <jansson.h>

/* A growing list of texts, stored one after another. If memory runs out, it is marked as failed, and ignores further
 * calls. */
struct texts {
    char *bytes;
    size_t length, bytes_capacity;
    size_t *ends; /* the end of each text in `bytes` (count) */
    size_t count, ends_capacity;
    bool failed;
};

void texts_free(struct texts *texts);
/* Appends bytes to the text that texts_end has not ended yet. */
void texts_append(struct texts *texts, const char *bytes, size_t length);
void texts_end(struct texts *texts);

struct decoder_step;

/* The steps in the file. Nested sequences of steps are flattened to one list. */
struct decoder {
    struct decoder_step *steps; /* `count` steps */
    size_t count;
    bool joins_with_spaces; /* true if the file contains no decoder */
};

/* Reads the key "decoder". If it is null, tokens are joined with spaces. After success the caller must call
 * decoder_free. */
int decoder_read(const json_t *json, struct decoder *decoder, struct error *error);
void decoder_free(struct decoder *decoder);

/* Runs the steps on the list `texts`. The result is the concatenation of all texts in `texts` afterwards. Returns -1 if
 * memory is lacking, or if a regular expression takes too many steps. */
int decoder_run(const struct decoder *decoder, const struct characters *characters, struct texts *texts,
                struct error *error);

#endif
