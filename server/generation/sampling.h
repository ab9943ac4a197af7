/* sampling: chooses the next token from the logits of a row.
 *
 * The filters are those of text-generation-inference, and those of linear-attention-transformer's AutoregressiveWrapper
 * (autoregressive_wrapper.py). They are applied in this order: repetition penalty, temperature, filter_thres, top-k,
 * top-p, min-p. Each keeps at least one token. The wrapper filters before it divides by the temperature; the order of
 * these two changes nothing for filter_thres, and the library's top-p gets logits without temperature.
 *
 * A choice depends on the logits, the options and one random number alone. So one seed gives one text, on any number of
 * threads and whatever else is in a batch, if the engine's results do not depend on the batch.
 *
 * Threads: any number of calls at once, each with its own scratch. */
#ifndef SERVER_SAMPLING_H
#define SERVER_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sampling_options {
    bool do_sample;            /* false: the largest logit, ties go to the lower id. Only the penalty is applied */
    double temperature;        /* > 0; 1: as the model gives them */
    int64_t top_k;             /* keeps that many of the largest; 0: all */
    double filter_thres;       /* the library's top_k: keeps int((1 - filter_thres) * vocabulary), which is at least 1.
                                  Below 0: all */
    double top_p;              /* keeps the fewest tokens, largest first, whose probabilities reach it; 1: all */
    bool top_p_library;        /* top_p is the library's threshold `thres`: keeps tokens, largest first, until the
                                  probabilities before them exceed 1 - top_p */
    double min_p;              /* keeps tokens at least min_p times as likely as the likeliest; 0: all */
    double repetition_penalty; /* > 0; of tokens of the history a logit above 0 is divided by it, another multiplied; 1:
                                  none */
    uint64_t seed;
};

/* All that changes nothing, for greedy choices. */
struct sampling_options sampling_defaults(void);

/* A number in [0, 1) for token number `index` of sequence number `sequence` of a request. */
double sampling_random(uint64_t seed, int64_t sequence, int64_t index);

/* Floats of scratch that a choice from `vocabulary` logits needs. */
size_t sampling_scratch(int64_t vocabulary);

struct sampled_token {
    int32_t id;
    float logprob; /* log of the softmax of the logits, before all filters */
};

/* Chooses one of the `vocabulary` tokens, at least one. `history` (n_history) are the tokens before, below
 * `vocabulary`. NaN counts as the smallest logit. The logits are not changed. */
struct sampled_token sampling_choose(const struct sampling_options *options, int64_t vocabulary, const float *logits,
                                     const int32_t *history, int64_t n_history, double random, float *scratch);

/* The `count` likeliest tokens, at most `vocabulary`, likeliest first, ties by id. Without filters. */
void sampling_best(int64_t vocabulary, const float *logits, int64_t count, struct sampled_token *best);

#endif
