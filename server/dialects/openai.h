/* openai: /v1/embeddings and /v1/models, in the form of OpenAI's API. */
#ifndef SERVER_OPENAI_H
#define SERVER_OPENAI_H

#include "server/http/routes.h"

extern const struct dialect openai_dialect;

#endif
