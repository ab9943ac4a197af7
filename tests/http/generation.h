/* generation: models and requests for tests of generation. */
#ifndef TESTS_HTTP_GENERATION_H
#define TESTS_HTTP_GENERATION_H

#include "tests/http/daemon.h"

#include <jansson.h>
#include <stdint.h>

/* Writes the model FOLDER/NAME: a causal model of bytes with random weights. `keys` are additional keys of config.json,
 * each followed by a comma. */
void generation_model_write(const char *folder, const char *name, const char *keys);

/* Like generation_model_write, with `vocabulary` ids. The first 259 ids are those of the byte tokenizer. */
void generation_wide_model_write(const char *folder, const char *name, int vocabulary);

/* Like generation_model_write. But after a token whose id is `first_bad` or higher, all logits are NaN, and the
 * sequence fails. */
void generation_failing_model_write(const char *folder, const char *name, int64_t first_bad);

/* Starts a daemon with the models of generation_greedy_runs, three other models of tests/reference, and three models of
 * bytes: "texts", "ending" and "failing". "ending" has the eos_token 258 and a prompt "query". *folder is the folder of
 * the models of bytes. */
struct daemon *generation_daemon_start(char **folder);
void generation_daemon_stop(struct daemon *daemon, char *folder); /* also removes and frees the folder */

/* Returns a body for /generate. The caller frees it. */
char *generation_body(const char *model, const json_t *prompt, const char *parameters);

/* Returns the sequences that linear-attention-transformer generates: a list of {"model", "prompt", "ids"}. The caller
 * drops the reference. Each sequence has 200 ids. If the daemon is slow, the list of ids is cut: prompt and ids
 * together have 80 tokens, 16 more than the longest input of the model (64). After a prompt of 64 or more tokens, there
 * are 16 ids. Beyond 64 tokens, each new token computes all rows again. A few of these tokens test the same code as
 * many. */
json_t *generation_greedy_runs(void);

#endif
