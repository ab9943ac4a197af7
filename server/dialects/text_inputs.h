/* text_inputs: converts the texts of a request to ids with the tokenizer of its model. All dialects use it. */
#ifndef SERVER_DIALECTS_TEXT_INPUTS_H
#define SERVER_DIALECTS_TEXT_INPUTS_H

#include "server/dialects/items.h"
#include "server/tokenizer/text_codec.h"

/* Options of a request for the encoding of its texts. */
struct text_inputs_options {
    bool truncate; /* true: texts longer than text_inputs.limit are cut. false: they are refused */
    bool truncate_left;
    bool add_special_tokens;
    const char *prompt; /* (prompt_length): the text that is put in front of each text. NULL if there is no prompt */
    size_t prompt_length;
    int64_t most_tokens; /* the request's limit for the number of tokens. 0 means the model's limit. The callers of
                            text_inputs_encode apply this limit */
};

/* The texts of one request while they are read. The caller sets the first three members, and zeroes the other members.
 * After text_inputs_encode the caller must call text_inputs_end. */
struct text_inputs {
    struct request *request;
    struct text_inputs_options options;
    const struct items_limit *limit; /* NULL if texts of any length are accepted, even empty ones */

    struct text_encoding encoding; /* the encoding of the latest text */
    int64_t charged;               /* bytes of the request's memory that are charged for `encoding` */

    char *prompted; /* (prompted_bytes): the prompt and the latest text. NULL if there is no prompt */
    size_t prompted_bytes;
};

/* The tokenizer of the request's model. NULL if the model accepts no texts. */
const struct text_codec *text_inputs_codec(const struct request *request);

/* Sets options->prompt. `name` and `input_type` are the values of the keys prompt_name and input_type of the request.
 * Both may be NULL.
 *
 * `name` is the name of one of the model's prompts, and has priority over `input_type`. `input_type` is such a name,
 * too. If the model has no prompt of this name, a name with the same meaning is tried. "query" and "search_query" have
 * the same meaning, and so have "document", "search_document" and "passage".
 *
 * If there is no prompt for `input_type`, this key counts as ignored. If neither key names a prompt, the prompt is the
 * model's default prompt. An unknown `name` is an error. Here and below, a failing function sets request->failure and
 * returns -1. */
int text_inputs_prompt(struct request *request, const char *name, const char *input_type,
                       struct text_inputs_options *options);

/* Reads the key truncate_prompt_tokens. Sets *tokens to its value, but to `most` if the value is -1 or above `most`.
 * Sets *tokens to 0 if `value` is NULL or null. */
int text_inputs_truncation(struct request *request, const json_t *value, int64_t most, int64_t *tokens);

/* Encodes the prompt, followed by the `length` bytes of the text, into texts->encoding. Fails if the model has no
 * tokenizer. `path` names the text in messages. The caller must keep the text until the next call. */
int text_inputs_encode(struct text_inputs *texts, const char *path, const char *text, size_t length);

/* Like text_inputs_encode. Returns the ids in the request's memory, and sets *count to their number. On failure sets
 * request->failure and returns NULL. */
int32_t *text_inputs_ids(struct text_inputs *texts, const char *path, const char *text, size_t length, int64_t *count);

/* Converts an error of the codec to request->failure. Always returns -1. */
int text_inputs_failed(struct request *request, const char *path, const struct error *error);

/* Frees the memory of `texts`, and returns its bytes to the budget. text_inputs_end may be called twice. */
void text_inputs_end(struct text_inputs *texts);

#endif
