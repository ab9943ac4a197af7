/* decoder: makes a text of the tokens' texts. */
#ifndef SERVER_DECODER_H
#define SERVER_DECODER_H

#include "server/tokenizer/characters.h"

#include "config/config.h"

#include <jansson.h>

/* A list of texts, one after the other. If memory runs out, it is marked as failed, and ignores further calls. */
struct texts {
    char *bytes;
    size_t length, bytes_capacity;
    size_t *ends; /* (count) of each text in `bytes` */
    size_t count, ends_capacity;
    bool failed;
};

void texts_free(struct texts *texts);
void texts_append(struct texts *texts, const char *bytes, size_t length); /* to the text that is not yet ended */
void texts_end(struct texts *texts);

struct decoder_step;

/* The steps of the file, sequences taken apart. */
struct decoder {
    struct decoder_step *steps; /* (count) */
    size_t count;
    bool joins_with_spaces; /* the file has no decoder */
};

/* Reads "decoder"; null joins the tokens with spaces. After success decoder_free is owed. */
int decoder_read(const json_t *json, struct decoder *decoder, struct error *error);
void decoder_free(struct decoder *decoder);

/* Runs the steps. The texts of `texts`, all together, are the result. -1: memory is out, or a regular expression takes
 * too many steps. */
int decoder_run(const struct decoder *decoder, const struct characters *characters, struct texts *texts,
                struct error *error);

#endif
