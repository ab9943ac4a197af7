/* echo: the text of a prompt, for the key `echo` of /v1/completions. For the key `logprobs`, also the offset in this
 * text at which each token of the prompt begins. */
#ifndef SERVER_DIALECTS_OPENAI_ECHO_H
#define SERVER_DIALECTS_OPENAI_ECHO_H

#include "server/dialects/native/generate_plan.h"
#include "server/dialects/text_inputs.h"

struct echo {
    char *text; /* (length): the prompt if it is a text, otherwise the text of its ids. NULL if ids have no text */
    size_t length;
    int64_t characters; /* number of characters of the text in the answer */
    int64_t *offsets; /* (number of tokens): the character of `text` at which each token begins. NULL if offsets are not
                         wanted */
};

/* The number of characters that writer_string writes for a text, not counting the escapes and quotes of JSON. */
int64_t echo_characters(const char *text, size_t length);

/* Sets *echo to the text of a prompt. `prompt` is the prompt in the request, a text or a list of ids, and `given`
 * contains its ids. prefix->prompt is the text that is put in front of the prompt. echo->text does not contain this
 * text, and the offset of its tokens is 0.
 *
 * `offsets` says whether echo->offsets are wanted. They need given->begins if the prompt is a text. On failure sets
 * request->failure and returns -1. */
int echo_keep(struct request *request, const json_t *prompt, const struct given_ids *given,
              const struct text_inputs_options *prefix, bool offsets, struct echo *echo);

#endif
