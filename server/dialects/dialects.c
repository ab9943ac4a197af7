#include "server/dialects/dialects.h"

#include "server/dialects/native/native.h"
#include "server/dialects/ollama/ollama.h"
#include "server/dialects/openai/openai.h"
#include "server/dialects/v2/v2.h"

const struct dialect *const all_dialects[] = {&openai_dialect, &v2_dialect, &ollama_dialect, &native_dialect, NULL};
