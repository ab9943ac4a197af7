/* ollama: /api/embed and /api/embeddings, in the format of Ollama's API. */
#ifndef SERVER_DIALECTS_OLLAMA_OLLAMA_H
#define SERVER_DIALECTS_OLLAMA_OLLAMA_H

#include "server/http/routes.h"

extern const struct dialect ollama_dialect;

#endif
