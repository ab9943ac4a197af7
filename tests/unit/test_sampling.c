/* Tests of the choice of a token. Many choices must have the distribution that linear-attention-transformer and
 * transformers compute (tests/generation/sampling.json). A token with probability 0 must never be chosen. */
#include "server/generation/sampling.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FILE_NAME "tests/generation/sampling.json"
#define CASES 35
#define DRAWS 20000
#define MAX_TOKENS 64
#define MIN_EXPECTED 5 /* the chi-square test counts tokens with fewer expected draws together */

static double number(const json_t *object, const char *key, double otherwise)
{
    const json_t *value = json_object_get(object, key);
    return value ? json_number_value(value) : otherwise;
}

static struct sampling_options read_options(const json_t *given)
{
    struct sampling_options options = sampling_defaults();
    options.do_sample = true;
    options.temperature = number(given, "temperature", 1);
    options.top_k = (int64_t)number(given, "top_k", 0);
    options.filter_thres = number(given, "filter_thres", -1);
    options.top_p = number(given, "top_p", 1);
    options.top_p_library = json_is_true(json_object_get(given, "top_p_library"));
    options.min_p = number(given, "min_p", 0);
    options.repetition_penalty = number(given, "repetition_penalty", 1);
    return options;
}

/* Expects that the counts of DRAWS draws agree with the probabilities: chi-square is at most 5 standard deviations
 * above its mean. The draws are the same in each run. */
static void assert_distribution(int64_t n, const int64_t *counts, const double *probabilities, size_t index)
{
    double chi_square = 0, rest_expected = 0, rest_found = 0, freedom = -1;
    for (int64_t i = 0; i < n; i++) {
        double expected = probabilities[i] * DRAWS, found = (double)counts[i];
        if (probabilities[i] == 0 && counts[i] > 0)
            fail_msg("case %zu: token %lld has no probability and was chosen", index, (long long)i);
        if (expected < MIN_EXPECTED) {
            rest_expected += expected;
            rest_found += found;
            continue;
        }
        chi_square += (found - expected) * (found - expected) / expected;
        freedom++;
    }
    if (rest_expected >= MIN_EXPECTED) {
        chi_square += (rest_found - rest_expected) * (rest_found - rest_expected) / rest_expected;
        freedom++;
    }
    double bound = freedom < 1 ? 1e-9 : freedom + 5 * sqrt(2 * freedom);
    if (!(chi_square <= bound))
        fail_msg("case %zu: chi-square %.1f with %.0f degrees of freedom", index, chi_square, freedom);
}

static void test_case(size_t index, const json_t *recorded)
{
    float logits[MAX_TOKENS], scratch[2 * MAX_TOKENS];
    double probabilities[MAX_TOKENS];
    int32_t history[MAX_TOKENS];
    int64_t counts[MAX_TOKENS] = {0};
    const json_t *values = json_object_get(recorded, "logits"), *before = json_object_get(recorded, "history");
    int64_t n = (int64_t)json_array_size(values), n_history = (int64_t)json_array_size(before);
    assert_in_range(n, 1, MAX_TOKENS);
    assert_true(sampling_scratch(n) <= sizeof scratch / sizeof *scratch);
    for (int64_t i = 0; i < n; i++) {
        logits[i] = (float)json_number_value(json_array_get(values, (size_t)i));
        probabilities[i] = json_number_value(json_array_get(json_object_get(recorded, "probabilities"), (size_t)i));
    }
    for (int64_t i = 0; i < n_history; i++)
        history[i] = (int32_t)json_integer_value(json_array_get(before, (size_t)i));
    struct sampling_options options = read_options(json_object_get(recorded, "options"));
    for (int64_t i = 0; i < DRAWS; i++) {
        double random = sampling_random(2026, (int64_t)index, i);
        struct sampled_token token = sampling_choose(&options, n, logits, history, n_history, random, scratch);
        assert_in_range(token.id, 0, n - 1);
        counts[token.id]++;
    }
    assert_distribution(n, counts, probabilities, index);
}

static void test_distributions_agree_with_those_of_the_libraries(void **state)
{
    (void)state;
    json_error_t error;
    json_t *cases = json_load_file(FILE_NAME, 0, &error), *recorded;
    size_t i;
    if (!cases)
        fail_msg(FILE_NAME ": %s; run from the root of the repository", error.text);
    assert_int_equal(json_array_size(cases), CASES);
    json_array_foreach (cases, i, recorded)
        test_case(i, recorded);
    json_decref(cases);
}

static struct sampled_token choose(const struct sampling_options *options, int64_t n, const float *logits,
                                   double random)
{
    float scratch[2 * MAX_TOKENS];
    return sampling_choose(options, n, logits, NULL, 0, random, scratch);
}

static void test_greedy_chooses_the_largest_and_the_first_of_equals(void **state)
{
    (void)state;
    struct sampling_options options = sampling_defaults();
    const float logits[] = {1, 3, NAN, 3, 2};
    struct sampled_token token = choose(&options, 5, logits, 0.99);
    assert_int_equal(token.id, 1);
    double total = exp(-2) + 1 + 1 + exp(-1);
    assert_true(fabs(token.logprob + log(total)) < 1e-6);
    const float none[] = {NAN, NAN};
    assert_int_equal(choose(&options, 2, none, 0.5).id, 0);
}

static void test_a_filter_keeps_at_least_one_token(void **state)
{
    (void)state;
    const float logits[] = {0, 5, 1};
    struct sampling_options options = sampling_defaults();
    options.do_sample = true;
    options.filter_thres = 0.999;
    assert_int_equal(choose(&options, 3, logits, 0.999999).id, 1);
    options = sampling_defaults();
    options.do_sample = true;
    options.top_p = 1e-9;
    assert_int_equal(choose(&options, 3, logits, 0.999999).id, 1);
    options.top_p = 1;
    options.temperature = 1e-6; /* the probabilities of the other tokens are rounded to 0 */
    assert_int_equal(choose(&options, 3, logits, 0.999999).id, 1);
}

static void test_best_tokens_are_sorted_with_their_log_probabilities(void **state)
{
    (void)state;
    const float logits[] = {1, 4, 4, 2};
    struct sampled_token best[4];
    sampling_best(4, logits, 3, best);
    double total = log(exp(1) + 2 * exp(4) + exp(2));
    const int32_t ids[] = {1, 2, 3};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(best[i].id, ids[i]);
        assert_true(fabs(best[i].logprob - (logits[ids[i]] - total)) < 1e-6);
    }
}

static void test_random_numbers_depend_on_seed_sequence_and_index(void **state)
{
    (void)state;
    double first = sampling_random(1, 2, 3);
    assert_true(first >= 0 && first < 1);
    assert_true(first == sampling_random(1, 2, 3));
    assert_true(first != sampling_random(2, 2, 3));
    assert_true(first != sampling_random(1, 3, 3));
    assert_true(first != sampling_random(1, 2, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_distributions_agree_with_those_of_the_libraries),
        cmocka_unit_test(test_greedy_chooses_the_largest_and_the_first_of_equals),
        cmocka_unit_test(test_a_filter_keeps_at_least_one_token),
        cmocka_unit_test(test_best_tokens_are_sorted_with_their_log_probabilities),
        cmocka_unit_test(test_random_numbers_depend_on_seed_sequence_and_index),
    };
    return cmocka_run_group_tests_name("sampling", tests, NULL, NULL);
}
