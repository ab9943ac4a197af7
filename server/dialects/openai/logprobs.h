/* logprobs: the key `logprobs` of a choice of /v1/completions. */
#ifndef SERVER_DIALECTS_OPENAI_LOGPROBS_H
#define SERVER_DIALECTS_OPENAI_LOGPROBS_H

#include "server/dialects/openai/echo.h"

/* Tokens [first, end) of a choice. New tokens are numbered from 0, and a prompt's tokens from -n_prompt to -1. */
struct logprobs_piece {
    const struct generated *sequence;
    const struct echo *echo; /* with the offsets of the prompt's tokens. NULL if no token is one of the prompt */
    int64_t first, end;
    int64_t offset; /* the character of the choice's text at which the first new token begins */
};

/* Writes {"text_offset":…,"token_logprobs":…,"tokens":…,"top_logprobs":…}. */
void logprobs_write(struct writer *writer, const struct generate_plan *plan, const struct logprobs_piece *piece);

#endif
