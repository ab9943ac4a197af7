/* sampling: chooses the next token of a sequence from logits. The logits are one row of the model's output.
 *
 * The options are those of text-generation-inference, and those of the class AutoregressiveWrapper in
 * linear-attention-transformer (autoregressive_wrapper.py). The options are applied in this order: repetition penalty,
 * temperature, filter_thres, top-k, top-p, min-p. The last four are filters, and each filter keeps at least one token.
 *
 * AutoregressiveWrapper filters before it divides by the temperature. For filter_thres this makes no difference,
 * because the division does not change the order of the logits. With top_p_library the difference matters, so this
 * filter reads logits that were not divided.
 *
 * A choice depends only on the logits, the earlier tokens, the options and one random number. The random number depends
 * only on the seed, on the number of the sequence and on the index of the token. So the same seed gives the same text,
 * for any number of threads and with any other items in the batch. This requires that the engine's results do not
 * depend on the batch.
 *
 * Threads: several threads may call the functions at the same time, each with its own scratch. */
#ifndef SERVER_SAMPLING_H
#define SERVER_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sampling_options {
    bool do_sample; /* if false, the token with the largest logit is chosen. Of equal logits, the lower id is chosen. Of
                       all other options, only repetition_penalty has an effect in this case */
    double temperature;  /* above 0. Logits are divided by the temperature */
    int64_t top_k;       /* a filter that keeps the tokens with the top_k largest logits. 0 keeps all tokens */
    double filter_thres; /* a filter that keeps the tokens with the int((1 - filter_thres) * vocabulary) largest logits,
                            at least 1. The library calls this filter top_k, but it is not the member top_k above. A
                            negative number keeps all tokens */
    double top_p; /* a filter that keeps the likeliest tokens, as few as are needed until the sum of their probabilities
                     reaches top_p. 1 keeps all tokens */
    bool top_p_library; /* if true, top_p is the library's threshold `thres`. The filter keeps the likeliest tokens, as
                           few as are needed until the sum of their probabilities exceeds 1 - top_p */
    double min_p; /* a filter that keeps tokens that are at least min_p times as likely as the likeliest token. 0 keeps
                     all tokens */
    double repetition_penalty; /* above 0. It changes the logits of tokens that are in the history. A logit above 0 is
                                  divided by the penalty, and any other logit is multiplied by it. 1 changes nothing */
    uint64_t seed;
};

/* Options that choose the token with the largest logit, without any changes or filters. */
struct sampling_options sampling_defaults(void);

/* A random number in [0, 1) for new token number `index` of sequence number `sequence` of a request. */
double sampling_random(uint64_t seed, int64_t sequence, int64_t index);

/* Returns the number of floats of scratch memory that sampling_choose needs. */
size_t sampling_scratch(int64_t vocabulary);

struct sampled_token {
    int32_t id;
    float logprob; /* logarithm of the token's softmax over the unchanged logits */
};

/* Chooses one of the tokens from 0 to vocabulary - 1. `vocabulary` is at least 1. `history` (n_history) contains the
 * earlier tokens of the sequence. `random` is the result of sampling_random. A logit of NaN counts as smaller than any
 * number. The logits are not changed. */
struct sampled_token sampling_choose(const struct sampling_options *options, int64_t vocabulary, const float *logits,
                                     const int32_t *history, int64_t n_history, double random, float *scratch);

/* Returns the logarithm of a token's softmax over the logits, or -INFINITY if its logit is NaN. */
float sampling_logprob(int64_t vocabulary, const float *logits, int32_t id);

/* Finds the `count` tokens with the largest logits, in descending order. `count` is at most `vocabulary`. Of equal
 * logits, the lower id comes first. The sampling options have no effect. */
void sampling_best(int64_t vocabulary, const float *logits, int64_t count, struct sampled_token *best);

#endif
