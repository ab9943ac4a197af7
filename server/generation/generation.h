/* generation: the sequences of a request that grow token by token.
 *
 *     generation_open -> generation_start -> (a job runs -> generation_next) … -> generation_leave
 *
 * A job computes the next token of every sequence of the request. The batcher joins the jobs of all requests, so a
 * batch has the next tokens of all sequences that are alive (Orca, Yu et al. 2022: iteration-level scheduling).
 *
 * Every sequence takes a slot, so --max-generations bounds their number. A request whose sequences find no slots waits
 * in the batcher's queue. If the model's sequences may come in parts
 * (model_info.n_slots), the slot is also the engine's, and a job brings the new rows alone. A long prompt comes in
 * several parts, between which other batches run. Otherwise each job runs the whole sequence again. Past the model's
 * longest input it runs the last tokens that the model takes, as linear-attention-transformer's AutoregressiveWrapper
 * does.
 *
 * Threads: one at a time, but the engine's threads choose tokens, each that of one sequence. */
#ifndef SERVER_GENERATION_H
#define SERVER_GENERATION_H

#include "server/generation/sampling.h"
#include "server/http/request.h"

enum generation_end {
    GENERATION_RUNS,
    GENERATION_LENGTH,  /* max_new_tokens */
    GENERATION_ENDED,   /* a token of `ends` */
    GENERATION_STOPPED, /* `token` returned false */
    GENERATION_DRAINED, /* the server drains, and --request-timeout-ms has passed since the draining began */
    GENERATION_LEFT     /* the request has ended before the sequence. Never in an answer */
};

/* The name for clients and metrics, as text-generation-inference has it, or vLLM's "abort". Not of GENERATION_RUNS. */
const char *generation_end_name(enum generation_end end);

struct generation;

/* One sequence. The caller sets the first members before generation_start. */
struct generated {
    int64_t number;             /* of the request's sequences; its random numbers depend on it and on the seed alone */
    int32_t *ids;               /* (n_prompt + max_new_tokens): the prompt's, then the new ones */
    int64_t n_prompt;           /* at least 1 */
    int64_t count;              /* ids so far */
    struct engine_item given;   /* inputs besides the sequence, such as an encoder's; zeroed if there are none */
    float *logprobs;            /* (max_new_tokens) */
    struct sampled_token *best; /* (max_new_tokens, n_best); NULL: none are wanted */
    enum generation_end end;

    /* Private. */
    const struct generation *generation;
    int64_t slot;     /* 0: none */
    int64_t kept;     /* rows that the slot has seen */
    int32_t row;      /* the wanted row of the item */
    int64_t token_ns; /* CLOCK_MONOTONIC, of the newest token */
    float *logits, *scratch;
    bool chosen; /* `token` is the next one */
    struct sampled_token token;
};

struct generation {
    struct sampling_options sampling;
    int64_t max_new_tokens; /* at least 1 */
    int64_t n_best;
    const int32_t *ends; /* (n_ends): tokens that end a sequence */
    int64_t n_ends;
    int sequence_input; /* index of the sequence among the model's inputs */

    /* Called after each new token, on a lane's thread; it must be quick. false: the sequence ends. NULL: none. */
    bool (*token)(struct request *request, struct generation *generation, struct generated *sequence);

    struct generated *sequences; /* (n_sequences) */
    int64_t n_sequences;

    /* Private. */
    int64_t vocabulary;
    int64_t *slots;             /* (n_sequences): of the first job */
    struct generated **running; /* (request->job.n_items): of each item */
};

/* Allocates `n_sequences` sequences in the request's memory, with room for prompts of n_prompt ids. The caller has set
 * the members before `sequences`. -1: request->failure, here and below. */
int generation_open(struct request *request, struct generation *generation, const int64_t *n_prompt,
                    int64_t n_sequences);

/* Sets the members of request->job, for the first job. It waits for a slot for each sequence. */
int generation_start(struct request *request, struct generation *generation);

/* After a job: appends the new tokens. Returns true if request->job has the items of the next job, and false if all
 * sequences have ended, or request->failure is set. */
bool generation_next(struct request *request, struct generation *generation);

/* Gives the slots back; to be called once more in request->leave. Twice is harmless. */
void generation_leave(struct request *request, struct generation *generation);

#endif
