/* generate_plan: functions and data that all routes for generation share. Reads prompts, seeds and stop texts, and
 * converts new tokens to text as the sequences grow. A stop text ends the generation when the sequence contains it.
 *
 *     the route reads numbers and stop texts -> generate_plan_start -> (a job runs -> generation_next) … */
#ifndef SERVER_DIALECTS_NATIVE_GENERATE_PLAN_H
#define SERVER_DIALECTS_NATIVE_GENERATE_PLAN_H

#include "server/dialects/native/generate_inputs.h"
#include "server/dialects/text_inputs.h"
#include "server/dialects/text_stream.h"
#include "server/generation/generation.h"

#define GENERATE_MAX_STOPS 16
/* Maximum number of bytes of one stop text. The search for all stop texts after each new token delays the next
 * batch. */
#define GENERATE_MAX_STOP_BYTES 1024
#define GENERATE_MAX_BEST 64
#define GENERATE_MAX_NEW_TOKENS (INT64_C(1) << 20)

struct stop_text {
    char *text;
    size_t length;
};

/* The text of one sequence. */
struct generated_text {
    struct text_stream stream;
    size_t *token_ends; /* (max_new_tokens): number of bytes of stream.text after each new token */
    size_t stop;        /* byte of stream.text at which the first stop text begins. SIZE_MAX if there is none */
};

/* The plan of a request to generate. request->options points to the route's own struct, which begins with this struct.
 * The caller zeroes this struct, and sets the members sampling, max_new_tokens and n_best of `generation`. */
struct generate_plan {
    struct generation generation;
    const struct text_codec *codec; /* NULL if tokens have no text */
    struct stop_text stops[GENERATE_MAX_STOPS];
    size_t n_stops;
    struct generated_text *texts; /* (generation.n_sequences): the text of each sequence */
    int32_t eos_id[1];            /* the model's end token, to which generation.end_ids points */
};

/* The ids of a prompt. The request contains the ids as a list, or their text. */
struct given_ids {
    int32_t *ids; /* (count) */
    int64_t count;
    bool wants_begins; /* set by the caller: whether generate_ids is to set `begins` */
    int64_t *begins;   /* (count): the character of the encoded text at which each token begins, 0 for a special token.
                          NULL if the prompt is a list of ids, or if wants_begins is false */
};

/* ---- Reading. A failing function sets request->failure and returns -1. `name` is the key for messages ---- */

/* Whether a model can generate text. */
bool generate_fits(const struct model_info *info);

/* Chooses the model of a request to generate. `named` is the key `model` of the request. If `named` is NULL, chooses
 * the first model that can generate. Fails if the model cannot generate. */
int generate_choose(struct request *request, const char *named);

/* Stores a number in *field if it is `valid`. Otherwise fails with a message that says what was `expected`. NaN stands
 * for an absent number, and leaves *field unchanged. */
int generate_number(struct request *request, const char *name, double value, bool valid, const char *expected,
                    double *field);

/* Stores the integer `given` in *field. Fails if it is not in [least, most]. If `given` is NULL, *field stays
 * unchanged. */
int generate_integer(struct request *request, const char *name, const json_t *given, int64_t least, int64_t most,
                     int64_t *field);

/* The sampling options in the model's config.json, with defaults for absent ones. */
struct sampling_options generate_sampling(const struct request *request);

/* Sets sampling->seed. If `seed` is NULL, the seed is random. */
int generate_seed(struct request *request, const char *name, const json_t *seed, struct sampling_options *sampling);

/* Reads `stop`, a text or a list of texts, into plan->stops. NULL means no stop text. */
int generate_stops(struct request *request, const char *name, const json_t *stop, struct generate_plan *plan);

/* Sets given->ids from a list of ids, or by encoding a text with these options. The ids must be below `vocabulary`. */
int generate_ids(struct request *request, const char *name, const json_t *value,
                 const struct text_inputs_options *options, int64_t vocabulary, struct given_ids *given);

/* Cuts off the beginning of a prompt so that at most `tokens` ids remain, as text-generation-inference and vLLM do. If
 * `tokens` is 0, the prompt stays whole. */
void generate_truncate(int64_t tokens, struct given_ids *prompt);

/* ---- Running ---- */

/* Opens `n_copies` sequences for each of the `n_prompts` prompts, and sets the items of the first job. The sequences of
 * one prompt are adjacent. Sets request->release. On failure sets request->failure and returns -1.
 *
 * If the model has an encoder, the prompts are the encoder's input, and each sequence begins with `decoder`. Otherwise
 * `decoder` is NULL, and each sequence begins with its prompt. `given` contains all other inputs of the model. They are
 * the same for all sequences. */
int generate_plan_start(struct request *request, struct generate_plan *plan, const struct given_ids *prompts,
                        int64_t n_prompts, int64_t n_copies, const struct given_ids *decoder,
                        const struct engine_item *given);

/* Reads the ids with which the sequences of a model with an encoder begin. If `value` is NULL, the only id is the
 * model's bos_token, or 1 if the model has no bos_token. */
int generate_decoder_input(struct request *request, const char *name, const json_t *value, struct given_ids *given);

/* ---- Texts of tokens ---- */

bool generate_is_special(const struct generate_plan *plan, int32_t id);

/* The number of new tokens of a sequence. */
int64_t generate_count(const struct generated *sequence);

/* The text that new token number `index` has added to the text of the sequence. For a special token, it is the text of
 * the token itself. Sets *length to the number of bytes. */
const char *generate_token_text(const struct generate_plan *plan, const struct generated *sequence, int64_t index,
                                size_t *length);

#endif
