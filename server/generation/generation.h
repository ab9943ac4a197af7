/* generation: the sequences of a request that grow token by token.
 *
 *     generation_open -> generation_start -> (a job runs -> generation_next) … -> generation_release
 *
 * A job computes the next token of each sequence of the request. The batcher joins the jobs of all requests. So a batch
 * computes the next tokens of all sequences that are being generated (Orca, Yu et al. 2022: iteration-level
 * scheduling).
 *
 * Each sequence holds a slot, which is the permission to generate it. A model has --max-generations slots for the
 * sequences of all requests. A request whose sequences find no free slots waits in the batcher's queue. For some
 * models, a slot also has memory for earlier rows of its sequence (model_info.n_slots). The number of the slot is then
 * also engine_item.slot, and a job contains only the new rows of each sequence. Several jobs read a long prompt, one
 * part each, and other batches run between them. For other models, each job contains all rows of each sequence.
 *
 * A sequence may become longer than the model can read (model_info.window). A job then contains only the last
 * model_info.window rows of the sequence. AutoregressiveWrapper of linear-attention-transformer does the same.
 *
 * The log-probability of a prompt's token needs the logits of the row before it. A prompt's logits are computed in
 * blocks of rows, and a block is read before the next one is computed. If model_info.earlier_rows_stay is false,
 * earlier rows may change when the sequence grows. In this case, a block is one row. The job of this row contains the
 * row and all rows before it, as if the prompt's tokens were generated.
 *
 * Threads: only one thread at a time may use a request. There is one exception. During a batch, several threads of the
 * engine may read logits at once, each for another sequence, or for another row of a prompt. */
#ifndef SERVER_GENERATION_H
#define SERVER_GENERATION_H

#include "server/generation/sampling.h"
#include "server/http/request.h"

#include <stdatomic.h>

enum generation_end {
    GENERATION_RUNS,
    GENERATION_LENGTH,  /* the sequence has max_new_tokens new tokens */
    GENERATION_ENDED,   /* the new token is one of `end_ids` */
    GENERATION_STOPPED, /* the function generation.token returned false */
    GENERATION_DRAINED, /* the server drains, and --request-timeout-ms has passed since the drain began */
    GENERATION_LEFT     /* the request ended before the sequence ended. No answer contains this value */
};

/* Returns the name of the end for answers and metrics. The names are those of text-generation-inference, with two
 * exceptions. "abort" comes from vLLM, and no client sees "cancelled". `end` must not be GENERATION_RUNS. */
const char *generation_end_name(enum generation_end end);

struct generation;

/* One sequence. After generation_open, the caller writes the prompt to `ids`, and sets `given`. Both must be done
 * before generation_start. */
struct generated {
    int64_t number; /* number of the sequence within its request. Its random numbers depend only on this number and the
                       seed */
    int32_t *ids;   /* (n_prompt + max_new_tokens): the ids of the prompt, followed by the new ids */
    int64_t n_prompt;         /* at least 1 */
    int64_t count;            /* number of ids so far, including the prompt */
    struct engine_item given; /* an item with the model's inputs other than the sequence, such as the input of an
                                 encoder. Zeroed if there are none */
    float *logprobs;          /* (max_new_tokens): the log-probability of each new token */
    /* (max_new_tokens, n_best): the likeliest tokens at the place of each new token. NULL if n_best is 0. */
    struct sampled_token *best;
    /* For each token of the prompt. The first element is undefined, because no token precedes it. NULL without
     * scores_prompts. */
    float *prompt_logprobs;            /* (n_prompt): the token's log-probability */
    struct sampled_token *prompt_best; /* (n_prompt, n_best): the likeliest tokens at its place. NULL if n_best is 0 */
    enum generation_end end;

    /* Only generation.c uses the members below. */
    const struct generation *generation;
    int64_t slot;           /* number of the slot. 0 before the sequence has a slot */
    int64_t submitted_rows; /* number of rows of the sequence that earlier jobs contained. If the model has slots, the
                               next item begins with this row (engine_item.first) */
    int64_t token_ns;       /* time of the newest token on CLOCK_MONOTONIC, in nanoseconds */
    int64_t most_wanted;    /* maximum number of rows for which an item requests logits */
    int64_t first_wanted;   /* position in the sequence of the item's first requested row */
    int32_t *rows;          /* (most_wanted): indices of the requested rows in the item */
    float *logits;          /* (most_wanted, vocabulary): the logits of these rows */
    float *scratch;
    atomic_bool was_read;       /* whether engine_item.finish has read the logits */
    struct sampled_token token; /* the chosen token, until it is appended */
};

struct generation {
    struct sampling_options sampling;
    int64_t max_new_tokens; /* at least 1 */
    int64_t n_best;
    bool scores_prompts;    /* true if the log-probabilities of the prompts' tokens are needed */
    const int32_t *end_ids; /* (n_end_ids): ids that end a sequence */
    int64_t n_end_ids;
    int sequence_input; /* index of the model's input that is the sequence */

    /* Called after each new token, on a thread of the batcher, so it must be quick. If it returns false, the sequence
     * ends. NULL if there is nothing to call. */
    bool (*token)(struct request *request, struct generation *generation, struct generated *sequence);

    struct generated *sequences; /* `n_sequences` sequences */
    int64_t n_sequences;

    /* Only generation.c uses the members below. */
    int64_t vocabulary;
    int64_t *slots;             /* (n_sequences): the batcher writes the slots of the first job here */
    struct generated **running; /* (request->job.n_items): the sequence of each item */
};

/* Refuses a request with more sequences than the server generates at a time, because they would never receive slots. If
 * --max-generations is 0, the limit is --max-client-batch-size. generation_open calls this function. If a caller
 * allocates memory for each sequence, it must call this function first. */
int generation_check_count(struct request *request, int64_t n_sequences);

/* Allocates `n_sequences` sequences in the request's memory. n_prompt[i] is the number of ids of prompt i. The caller
 * must have set the members of `generation` that are declared before `sequences`. On failure, generation_check_count,
 * generation_open and generation_start set request->failure and return -1. */
int generation_open(struct request *request, struct generation *generation, const int64_t *n_prompt,
                    int64_t n_sequences);

/* Sets the members of request->job for the first job, which waits until there is a slot for each sequence. */
int generation_start(struct request *request, struct generation *generation);

/* Call it after each job. Appends the new tokens. Returns true if request->job contains the items of the next job.
 * Returns false if all sequences have ended, or if request->failure is set. */
bool generation_next(struct request *request, struct generation *generation);

/* Gives the slots back. request->release must call this function, even if all sequences have ended. It may be called
 * twice. */
void generation_release(struct request *request, struct generation *generation);

#endif
