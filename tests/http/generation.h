/* generation: models and requests of the tests of generation. */
#ifndef TESTS_HTTP_GENERATION_H
#define TESTS_HTTP_GENERATION_H

#include <jansson.h>

/* Writes FOLDER/NAME: a causal model of bytes with random weights. `keys` are more keys of config.json, each with a
 * comma. */
void generation_model_write(const char *folder, const char *name, const char *keys);

/* A body of /generate. The caller frees it. */
char *generation_body(const char *model, const json_t *prompt, const char *parameters);

/* What linear-attention-transformer generates: a list of {"model", "prompt", "ids"}, which the caller drops. */
json_t *generation_greedy_runs(void);

#endif
