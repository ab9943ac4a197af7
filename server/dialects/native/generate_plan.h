/* generate_plan: functions and data that all routes for generation share. It reads prompts, seeds and stop texts, and
 * converts the new tokens to text while the sequences grow.
 *
 *     the route reads numbers and stop texts -> generate_plan_start -> (a job runs -> generation_next) … */
#ifndef SERVER_DIALECTS_NATIVE_GENERATE_PLAN_H
#define SERVER_DIALECTS_NATIVE_GENERATE_PLAN_H

#include "server/dialects/native/generate_inputs.h"
#include "server/dialects/text_inputs.h"
#include "server/dialects/text_stream.h"
#include "server/generation/generation.h"

#define GENERATE_MOST_STOPS 16
/* Most bytes of one stop text. After each new token, all stop texts are searched while batches wait. */
#define GENERATE_MOST_STOP_BYTES 1024
#define GENERATE_MOST_BEST 64
#define GENERATE_MOST_NEW_TOKENS (INT64_C(1) << 20)

struct stop_text {
    char *text;
    size_t length;
};

/* The text of one sequence. */
struct generated_text {
    struct text_stream stream;
    size_t *token_ends; /* (max_new_tokens): length of stream.text after each token */
    size_t stop;        /* where the first stop text begins in stream.text. SIZE_MAX if there is none */
};

/* The struct of a route, which is request->options, begins with this struct. The caller zeroes it, and sets the members
 * sampling, max_new_tokens and n_best of `generation`. */
struct generate_plan {
    struct generation generation;
    const struct text_codec *codec; /* NULL if tokens have no text */
    struct stop_text stops[GENERATE_MOST_STOPS];
    size_t n_stops;
    struct generated_text *texts; /* (generation.n_sequences) */
    int32_t eos_id[1];            /* memory for generation.end_ids */
};

/* The ids of a prompt. The request contains them as a list, or as a text. */
struct given_ids {
    int32_t *ids; /* (count) */
    int64_t count;
    bool wants_begins; /* set by the caller of generate_ids */
    int64_t *begins;   /* (count): the character of the encoded text at which each token begins, 0 for a special token.
                          NULL for a list, and without wants_begins */
};

/* ---- Reading. On failure these functions set request->failure and return -1. `name` is the key in messages ---- */

/* Whether a model can generate. */
bool generate_fits(const struct model_info *info);

/* Fails if the model cannot generate. `named` is the key `model` of the request. If it is NULL, chooses the first model
 * that can generate. */
int generate_choose(struct request *request, const char *named);

/* Stores a number in *field, if it is `valid`. Otherwise the message says what was `expected`. NaN stands for an absent
 * number, and changes nothing. */
int generate_number(struct request *request, const char *name, double value, bool valid, const char *expected,
                    double *field);

/* Reads an integer from `least` to `most` into *field. If `given` is NULL, *field stays unchanged. */
int generate_integer(struct request *request, const char *name, const json_t *given, int64_t least, int64_t most,
                     int64_t *field);

/* The options of the model's config.json. */
struct sampling_options generate_sampling(const struct request *request);

/* Reads a seed. If it is NULL, chooses a random seed. */
int generate_seed(struct request *request, const char *name, const json_t *seed, struct sampling_options *sampling);

/* Reads stop texts: a text, or a list of texts. NULL stands for none. */
int generate_stops(struct request *request, const char *name, const json_t *stop, struct generate_plan *plan);

/* Reads ids from a list, or encodes a text with these options. The ids must be below `vocabulary`. */
int generate_ids(struct request *request, const char *name, const json_t *value,
                 const struct text_inputs_options *options, int64_t vocabulary, struct given_ids *given);

/* Cuts off the beginning of a prompt with more than `tokens` ids, as text-generation-inference and vLLM do. 0 stands
 * for no limit. */
void generate_truncate(int64_t tokens, struct given_ids *prompt);

/* ---- Running ---- */

/* Opens `n_copies` sequences for each of the `n_prompts` prompts, and sets the items of the first job. The sequences of
 * one prompt follow one another. If the model has an encoder, the encoder reads the prompts, and the sequences begin
 * with `decoder`. `given` has the model's inputs besides the sequence and the encoder's input, for all sequences. Sets
 * request->leave. On failure sets request->failure and returns -1. */
int generate_plan_start(struct request *request, struct generate_plan *plan, const struct given_ids *prompts,
                        int64_t n_prompts, int64_t n_copies, const struct given_ids *decoder,
                        const struct engine_item *given);

/* Reads the beginning of a decoder's sequence, for a model with an encoder. If `value` is NULL, the sequence begins
 * with the model's bos_token, or with id 1 if the model has none. */
int generate_decoder_input(struct request *request, const char *name, const json_t *value, struct given_ids *given);

/* ---- Texts of tokens ---- */

bool generate_is_special(const struct generate_plan *plan, int32_t id);

/* The number of new tokens of a sequence. */
int64_t generate_count(const struct generated *sequence);

/* The text that new token number `index` added. Sets *length to its number of bytes. For a special token, this is the
 * token's own text. */
const char *generate_token_text(const struct generate_plan *plan, const struct generated *sequence, int64_t index,
                                size_t *length);

#endif
