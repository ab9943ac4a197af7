/* generate_plan: the routes that generate tokens share it. It reads prompts, seeds and stop texts, and has the texts of
 * the tokens while the sequences grow.
 *
 *     the numbers and stop texts are read -> generate_plan_start -> (a job runs -> generation_next) …
 */
#ifndef SERVER_DIALECTS_GENERATE_PLAN_H
#define SERVER_DIALECTS_GENERATE_PLAN_H

#include "server/dialects/native.h"
#include "server/dialects/text_stream.h"
#include "server/generation/generation.h"

#define GENERATE_MOST_STOPS 16
#define GENERATE_MOST_STOP_BYTES 1024 /* of one; each new token looks for all of them, while batches wait */
#define GENERATE_MOST_BEST 64
#define GENERATE_MOST_NEW_TOKENS (INT64_C(1) << 20)

struct stop_text {
    char *text;
    size_t length;
};

/* The text of one sequence. */
struct generated_text {
    struct text_stream stream;
    size_t *ends; /* (max_new_tokens): bytes of stream.text after each token */
    size_t stop;  /* where the first stop text begins in stream.text. SIZE_MAX: there is none */
};

/* A route's own struct begins with it, and is request->options. The caller zeroes it, and sets generation.sampling,
 * .max_new_tokens and .n_best. */
struct generate_plan {
    struct generation generation;
    const struct text_codec *codec; /* NULL: tokens have no text */
    struct stop_text stops[GENERATE_MOST_STOPS];
    size_t n_stops;
    struct generated_text *texts; /* (generation.n_sequences) */
    int32_t ends[1];
};

/* Ids that a request gives: a text, or a list of ids. */
struct given_ids {
    int32_t *ids; /* (count) */
    int64_t count;
};

/* ---- Reading. -1: request->failure, here and below. `name` is the key in messages ---- */

/* Whether a model can generate. */
bool generate_fits(const struct model_info *info);

/* Refuses a model that cannot generate. `named` is the request's key `model`. If it is NULL, chooses the first model
 * that can generate. */
int generate_choose(struct request *request, const char *named);

/* Checks a number unless it is NaN, which is an absent one, and puts it into *field. */
int generate_number(struct request *request, const char *name, double value, bool valid, const char *expected,
                    double *field);

/* The options of the model's config.json. */
struct sampling_options generate_sampling(const struct request *request);

/* NULL: a seed is drawn. */
int generate_seed(struct request *request, const char *name, const json_t *seed, struct sampling_options *sampling);

/* A text, or a list of texts. NULL: none. */
int generate_stops(struct request *request, const char *name, const json_t *stop, struct generate_plan *plan);

/* The ids of a list, or of a text with these options. Ids are below `vocabulary`. */
int generate_ids(struct request *request, const char *name, const json_t *value,
                 const struct text_inputs_options *options, int64_t vocabulary, struct given_ids *given);

/* ---- Running ---- */

/* Opens `n_copies` sequences for each of the `n_prompts` prompts, those of a prompt one after another, and sets the
 * items of the first job. If the model has an encoder, it reads the prompts, and the sequences begin with `decoder`.
 * Sets request->leave. */
int generate_plan_start(struct request *request, struct generate_plan *plan, const struct given_ids *prompts,
                        int64_t n_prompts, int64_t n_copies, const struct given_ids *decoder);

/* What the target of a model with an encoder begins with. `value` NULL: the id that is usual for the model. */
int generate_decoder_input(struct request *request, const char *name, const json_t *value, struct given_ids *given);

/* ---- Texts of tokens ---- */

bool generate_is_special(const struct generate_plan *plan, int32_t id);

/* Number of new tokens of a sequence. */
int64_t generate_count(const struct generated *sequence);

/* The text that new token number `index` added, *length bytes. A special token has its own text. */
const char *generate_token_text(const struct generate_plan *plan, const struct generated *sequence, int64_t index,
                                size_t *length);

#endif
