/* echo: the text of a prompt, for the key `echo` of /v1/completions. With the key `logprobs` it also says where
 * each token of the prompt begins in this text. */
#ifndef SERVER_DIALECTS_OPENAI_ECHO_H
#define SERVER_DIALECTS_OPENAI_ECHO_H

#include "server/dialects/native/generate_plan.h"
#include "server/dialects/text_inputs.h"

struct echo {
    char *text; /* (length): the given text, or the text of the given ids. Empty if ids have no text */
    size_t length;
    int64_t characters; /* number of characters of the text in the answer */
    int64_t *offsets;   /* (number of tokens): the character of the text at which each token begins. NULL if they are
                           not wanted */
};

/* The number of characters that writer_string writes for the text. */
int64_t echo_characters(const char *text, size_t length);

/* Keeps the text of a prompt, which `given` contains as ids. `prefix` is the model's prompt before a given text. The
 * echo does not contain `prefix`, and all tokens of `prefix` get the offset 0. With `offsets`, given->begins is needed
 * if the prompt is a text. On failure sets request->failure and returns -1. */
int echo_keep(struct request *request, const json_t *prompt, const struct given_ids *given,
              const struct text_inputs_options *prefix, bool offsets, struct echo *echo);

#endif
