/* openai: /v1/embeddings, /v1/completions and /v1/models, in the format of OpenAI's API. */
#ifndef SERVER_DIALECTS_OPENAI_OPENAI_H
#define SERVER_DIALECTS_OPENAI_OPENAI_H

#include "server/http/routes.h"

extern const struct dialect openai_dialect;

/* These functions are defined in completions.c. */
enum outcome openai_completions_read(struct request *request);
int openai_completions_answer(struct request *request);

#endif
