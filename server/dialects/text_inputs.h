/* text_inputs: converts the texts of a request to ids. All dialects use text_inputs_encode for every text. */
#ifndef SERVER_DIALECTS_TEXT_INPUTS_H
#define SERVER_DIALECTS_TEXT_INPUTS_H

#include "server/dialects/items.h"
#include "server/tokenizer/text_codec.h"

/* What a request says about its texts. */
struct text_inputs_options {
    bool truncate; /* true: texts longer than text_inputs.limit are cut. false: they are refused */
    bool truncate_left;
    bool add_special_tokens;
    const char *prompt; /* (prompt_length). It is put in front of each text. NULL if there is no prompt */
    size_t prompt_length;
    int64_t most_tokens; /* the request's limit on tokens, or 0 for the model's limit. text_inputs_encode does not read
                            this member, its callers apply the limit */
};

/* The texts of one request while they are read. The caller sets the first three members, and zeroes the others. After
 * text_inputs_encode the caller must call text_inputs_end. */
struct text_inputs {
    struct request *request;
    struct text_inputs_options options;
    const struct items_limit *limit; /* NULL if texts of any length are accepted, even empty ones */

    struct text_encoding encoding; /* the encoding of the latest text */
    int64_t charged;               /* bytes of the request's memory for `encoding` */

    char *prompted; /* (prompted_bytes): the latest text, with its prompt */
    size_t prompted_bytes;
};

/* The codec of the request's model. NULL if the model accepts no texts. */
const struct text_codec *text_inputs_codec(const struct request *request);

/* Sets the prompt of `options`. `name` is the key prompt_name of the request, and `input_type` the key of this name.
 * Both may be NULL. `name` wins if both are given. `input_type` is the name of a prompt. If the model has no prompt of
 * this name, "query" and "search_query" stand for each other, and so do "document", "search_document" and "passage". If
 * the model has no such prompt either, the key input_type counts as ignored. Without any name, the prompt is the
 * model's default prompt. Here and below, a failing function sets request->failure and returns -1. */
int text_inputs_prompt(struct request *request, const char *name, const char *input_type,
                       struct text_inputs_options *options);

/* Reads the key truncate_prompt_tokens. Sets *tokens to its value, to `most` for -1, and never to more than `most`.
 * Sets it to 0 if `value` is NULL or null. */
int text_inputs_truncation(struct request *request, const json_t *value, int64_t most, int64_t *tokens);

/* Encodes the prompt, followed by the `length` bytes of the text, into texts->encoding. Fails if the model has no
 * tokenizer. `path` names the text in messages. The caller must keep the text until the next call. */
int text_inputs_encode(struct text_inputs *texts, const char *path, const char *text, size_t length);

/* Converts an error of the codec to request->failure. Always returns -1. */
int text_inputs_failed(struct request *request, const char *path, const struct error *error);

/* Frees the memory of `texts`, and returns its bytes to the budget. It may be called twice. */
void text_inputs_end(struct text_inputs *texts);

#endif
