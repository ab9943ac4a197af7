/* pre_tokenizer: the steps that cut a text into pieces for the model. */
#ifndef SERVER_PRE_TOKENIZER_H
#define SERVER_PRE_TOKENIZER_H

#include "server/tokenizer/aligned.h"

#include "config/config.h"

#include <jansson.h>

struct pre_tokenizer_step;

/* The steps in the file. Nested sequences of steps are flattened to one list. A zeroed struct contains no steps. */
struct pre_tokenizer {
    struct pre_tokenizer_step *steps; /* `count` steps */
    size_t count;
};

/* A text and its pieces. pre_tokenizer_run replaces both. */
struct cutting {
    struct view text;
    struct pieces pieces;
    struct aligned turns[2]; /* memory for the texts that steps write */
    struct pieces spare;
};

/* Reads the key "pre_tokenizer". If the value is null, there are no steps. After success the caller must call
 * pre_tokenizer_free. */
int pre_tokenizer_read(const json_t *json, struct pre_tokenizer *pre_tokenizer, struct error *error);
void pre_tokenizer_free(struct pre_tokenizer *pre_tokenizer);
void cutting_free(struct cutting *cutting);

/* Whether the last step is ByteLevel, which maps each byte to a character. */
bool pre_tokenizer_ends_in_bytes(const struct pre_tokenizer *pre_tokenizer);

/* Cuts each piece that is not an added token. If `keep_bytes` is true and the last step is ByteLevel, this step leaves
 * the bytes unchanged, for a model that reads bytes. Returns -1 if memory is lacking, or if a regular expression takes
 * too many steps. */
int pre_tokenizer_run(const struct pre_tokenizer *pre_tokenizer, const struct characters *characters, bool keep_bytes,
                      struct cutting *cutting, struct error *error);

#endif
