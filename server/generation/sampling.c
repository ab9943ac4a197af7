#include "server/generation/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A token that may be chosen. */
struct candidate {
    float logit; /* never NaN */
    int32_t id;
};

struct sampling_options sampling_defaults(void)
{
    return (struct sampling_options){
        .temperature = 1, .filter_thres = -1, .top_p = 1, .min_p = 0, .repetition_penalty = 1};
}

/* ---- Random numbers ---- */

/* The finalising function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

double sampling_random(uint64_t seed, int64_t sequence, int64_t index)
{
    uint64_t bits = mix(mix(mix(seed) ^ (uint64_t)sequence) ^ (uint64_t)index);
    return (double)(bits >> 11) * 0x1p-53;
}

/* ---- Candidates ---- */

size_t sampling_scratch(int64_t vocabulary)
{
    return (size_t)vocabulary * (sizeof(struct candidate) / sizeof(float));
}

static bool is_before(struct candidate a, struct candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static int compare(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    return is_before(*x, *y) ? -1 : is_before(*y, *x);
}

static void load(struct candidate *candidates, int64_t vocabulary, const float *logits)
{
    for (int64_t i = 0; i < vocabulary; i++)
        candidates[i] = (struct candidate){isnan(logits[i]) ? -INFINITY : logits[i], (int32_t)i};
}

/* Applies the repetition penalty. The logit of a token is changed only once, even if the token occurs several times in
 * the history. */
static void penalize(struct candidate *candidates, int64_t vocabulary, const float *logits, const int32_t *history,
                     int64_t n_history, double penalty)
{
    for (int64_t i = 0; i < n_history; i++) {
        int32_t id = history[i];
        if (id < 0 || id >= vocabulary || isnan(logits[id]))
            continue;
        candidates[id].logit = (float)(logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty);
    }
}

static struct candidate largest(const struct candidate *candidates, int64_t count)
{
    struct candidate best = candidates[0];
    for (int64_t i = 1; i < count; i++)
        if (is_before(candidates[i], best))
            best = candidates[i];
    return best;
}

/* Moves the `count` candidates that come first in the order of is_before to the front of the array. They are not sorted
 * there (Hoare's quickselect). */
static void select_first(struct candidate *candidates, int64_t n, int64_t count)
{
    int64_t low = 0, high = n - 1;
    while (low < high) {
        struct candidate pivot = candidates[low + (high - low) / 2];
        int64_t i = low, j = high;
        while (i <= j) {
            while (is_before(candidates[i], pivot))
                i++;
            while (is_before(pivot, candidates[j]))
                j--;
            if (i <= j) {
                struct candidate swapped = candidates[i];
                candidates[i++] = candidates[j];
                candidates[j--] = swapped;
            }
        }
        if (count <= j + 1)
            high = j;
        else if (count > i)
            low = i;
        else
            return;
    }
}

/* ---- Filters. Each returns how many of the first candidates are kept. For keep_by_probability and keep_by_likeliest,
 * candidates must be in the order of is_before ---- */

static int64_t at_least_one(int64_t count, int64_t most)
{
    return count < 1 ? 1 : count > most ? most : count;
}

static int64_t keep_by_count(const struct sampling_options *options, int64_t vocabulary)
{
    int64_t count = vocabulary;
    if (options->filter_thres >= 0)
        count = at_least_one((int64_t)((1 - options->filter_thres) * (double)vocabulary), count);
    return options->top_k > 0 ? at_least_one(options->top_k, count) : count;
}

/* The unnormalised probability of a candidate: exp(logit / temperature), divided by the same term for the largest
 * logit, `top`. If `top` is infinite, it has the weight 1, and finite logits have the weight 0. */
static double weight(struct candidate candidate, float top, double temperature)
{
    return candidate.logit == top ? 1 : exp(((double)candidate.logit - top) / temperature);
}

static double total_weight(const struct candidate *candidates, int64_t count, float top, double temperature)
{
    double total = 0;
    for (int64_t i = 0; i < count; i++)
        total += weight(candidates[i], top, temperature);
    return total;
}

static int64_t keep_by_probability(const struct sampling_options *options, const struct candidate *candidates,
                                   int64_t count)
{
    double temperature = options->top_p_library ? 1 : options->temperature, sum = 0;
    double total = total_weight(candidates, count, candidates[0].logit, temperature);
    double most = options->top_p_library ? 1 - options->top_p : options->top_p;
    for (int64_t i = 0; i < count; i++) {
        sum += weight(candidates[i], candidates[0].logit, temperature) / total;
        if (options->top_p_library ? sum > most : sum >= most)
            return i + 1;
    }
    return count;
}

static int64_t keep_by_likeliest(const struct sampling_options *options, const struct candidate *candidates,
                                 int64_t count)
{
    int64_t kept = 1;
    while (kept < count && weight(candidates[kept], candidates[0].logit, options->temperature) >= options->min_p)
        kept++;
    return kept;
}

/* ---- The choice ---- */

/* The numbers that convert the logits of a row to logarithms of probabilities. */
struct log_softmax {
    float top; /* the largest logit */
    double log_total;
};

static struct log_softmax log_softmax_of(int64_t vocabulary, const float *logits)
{
    struct log_softmax softmax = {.top = -INFINITY};
    for (int64_t i = 0; i < vocabulary; i++)
        softmax.top = logits[i] > softmax.top ? logits[i] : softmax.top;
    double total = 0;
    for (int64_t i = 0; i < vocabulary; i++)
        if (!isnan(logits[i]))
            total += logits[i] == softmax.top ? 1 : exp((double)logits[i] - softmax.top);
    softmax.log_total = log(total);
    return softmax;
}

static float log_probability(const struct log_softmax *softmax, float logit)
{
    if (isnan(logit))
        return -INFINITY;
    double above = logit == softmax->top ? 0 : (double)logit - softmax->top;
    return (float)(above - softmax->log_total);
}

static int32_t draw(const struct sampling_options *options, const struct candidate *candidates, int64_t count,
                    double random)
{
    struct candidate likeliest = largest(candidates, count);
    double left = random * total_weight(candidates, count, likeliest.logit, options->temperature);
    for (int64_t i = 0; i < count; i++) {
        left -= weight(candidates[i], likeliest.logit, options->temperature);
        if (left < 0)
            return candidates[i].id;
    }
    return likeliest.id; /* rounding errors may leave `left` slightly above 0 */
}

/* Applies the filters. Moves the remaining candidates to the front of the array, and returns their number. If no filter
 * can remove a candidate, the array is not sorted, because sorting a whole vocabulary would take longer than all other
 * work. */
static int64_t filter(const struct sampling_options *options, struct candidate *candidates, int64_t vocabulary)
{
    int64_t count = keep_by_count(options, vocabulary);
    bool by_probability = options->top_p < 1 || options->top_p_library;
    if (count == vocabulary && !by_probability && options->min_p <= 0)
        return count;
    if (count < vocabulary)
        select_first(candidates, vocabulary, count);
    qsort(candidates, (size_t)count, sizeof *candidates, compare);
    if (by_probability)
        count = keep_by_probability(options, candidates, count);
    return options->min_p > 0 ? keep_by_likeliest(options, candidates, count) : count;
}

struct sampled_token sampling_choose(const struct sampling_options *options, int64_t vocabulary, const float *logits,
                                     const int32_t *history, int64_t n_history, double random, float *scratch)
{
    struct candidate *candidates = (struct candidate *)scratch;
    struct sampled_token token;
    load(candidates, vocabulary, logits);
    if (options->repetition_penalty != 1)
        penalize(candidates, vocabulary, logits, history, n_history, options->repetition_penalty);
    token.id = options->do_sample ? draw(options, candidates, filter(options, candidates, vocabulary), random)
                                  : largest(candidates, vocabulary).id;
    token.logprob = sampling_logprob(vocabulary, logits, token.id);
    return token;
}

float sampling_logprob(int64_t vocabulary, const float *logits, int32_t id)
{
    struct log_softmax softmax = log_softmax_of(vocabulary, logits);
    return log_probability(&softmax, logits[id]);
}

/* Uses insertion sort, because `count` is small. */
void sampling_best(int64_t vocabulary, const float *logits, int64_t count, struct sampled_token *best)
{
    int64_t found = 0;
    for (int64_t id = 0; id < vocabulary; id++) {
        float logit = isnan(logits[id]) ? -INFINITY : logits[id];
        if (found == count && !(count > 0 && logit > best[count - 1].logprob))
            continue;
        int64_t place = found < count ? found++ : count - 1;
        for (; place > 0 && best[place - 1].logprob < logit; place--)
            best[place] = best[place - 1];
        best[place] = (struct sampled_token){(int32_t)id, logit};
    }
    struct log_softmax softmax = log_softmax_of(vocabulary, logits);
    for (int64_t i = 0; i < found; i++)
        best[i].logprob = log_probability(&softmax, best[i].logprob);
}
