/* text_inputs: the texts of a request become ids. All dialects share it: every text of a request comes by
 * text_inputs_encode. */
#ifndef SERVER_DIALECTS_TEXT_INPUTS_H
#define SERVER_DIALECTS_TEXT_INPUTS_H

#include "server/dialects/items.h"
#include "server/tokenizer/text_codec.h"

/* How a request wants its texts to be read. */
struct text_inputs_options {
    bool truncate; /* cut what is longer than `limit`; else text_inputs_encode refuses it */
    bool truncate_left;
    bool add_special_tokens;
    const char *prompt; /* (prompt_length) it stands before each text; NULL: nothing does */
    size_t prompt_length;
};

/* The texts of one request while they are read. Zeroed but for the first three; text_inputs_end is owed after
 * text_inputs_encode. */
struct text_inputs {
    struct request *request;
    struct text_inputs_options options;
    const struct items_limit *limit; /* NULL: a text of any length is taken, also an empty one */

    struct text_encoding encoding; /* of the text read last */
    int64_t charged;               /* bytes of the request's memory for `encoding` */

    char *prompted; /* (prompted_bytes) the text read last, with its prompt */
    size_t prompted_bytes;
};

/* NULL: the model takes no texts. */
const struct text_codec *text_inputs_codec(const struct request *request);

/* Refuses a text for a model without a tokenizer. `path` names the text in messages, here and below. -1:
 * request->failure, also below. */
int text_inputs_check(struct request *request, const char *path);

/* Sets the prompt of `options`. `name` is that of the request, and NULL stands for the model's default. */
int text_inputs_prompt(struct request *request, const char *name, struct text_inputs_options *options);

/* Encodes `length` bytes, with the prompt before them, into texts->encoding. The text stays the caller's until the next
 * call. */
int text_inputs_encode(struct text_inputs *texts, const char *path, const char *text, size_t length);

/* Turns the error of a codec into request->failure. Returns -1. */
int text_inputs_failed(struct request *request, const char *path, const struct error *error);

/* Frees the memory of texts, and gives back what was taken from the budget for it. Twice is harmless. */
void text_inputs_end(struct text_inputs *texts);

#endif
