/* openai: /v1/embeddings and /v1/models, as clients of OpenAI's API know them. */
#ifndef SERVER_OPENAI_H
#define SERVER_OPENAI_H

#include "server/http/routes.h"

extern const struct dialect openai_dialect;

#endif
