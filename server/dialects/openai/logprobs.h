/* logprobs: writes the key `logprobs` of a choice of /v1/completions. A choice is one generated sequence in an
 * answer. */
#ifndef SERVER_DIALECTS_OPENAI_LOGPROBS_H
#define SERVER_DIALECTS_OPENAI_LOGPROBS_H

#include "server/dialects/openai/echo.h"

/* Tokens number `first` to `end` - 1 of a choice. New tokens are numbered from 0, and the tokens of the prompt from
 * -n_prompt to -1. */
struct logprobs_piece {
    const struct generated *sequence;
    const struct echo *echo; /* contains the offsets of the prompt's tokens. May be NULL if first >= 0 */
    int64_t first, end;
    int64_t offset; /* the character of the choice's text at which the first new token of the piece begins */
};

/* Writes {"text_offset":…,"token_logprobs":…,"tokens":…,"top_logprobs":…}. */
void logprobs_write(struct writer *writer, const struct generate_plan *plan, const struct logprobs_piece *piece);

#endif
