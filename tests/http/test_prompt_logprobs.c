/* /v1/completions with `echo` and `logprobs`: the log-probabilities of a prompt's tokens. They agree with those of the
 * libraries (tests/generation/scores.json), within TOLERANCE. The tests include tokens beyond max_seq_len, and a model
 * that runs the whole sequence again for each token. The rows of long prompts are computed in several jobs. These rows
 * are compared with /logits. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"
#include "tests/http/generation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCORES "tests/generation/scores.json"
#define TOLERANCE 1e-5
#define WIDE 40000 /* number of ids of a model whose prompts are computed in blocks of a few rows */

/* Comparing a row reads the JSON of all its logits, which is slow with a sanitizer. A whole block has 26 or 341
 * rows, and 7 divides neither. */
#define EACH (*daemon_sanitizer() ? 7 : 1) /* one of this many rows is compared */

static char *folder;
static struct daemon *the_daemon;

static int start(void **state)
{
    (void)state;
    char texts[512], wide[512];
    folder = folder_make();
    generation_model_write(folder, "texts", "\"prompts\": {\"query\": \"qu\xc3\xa9ry: \"}, ");
    generation_wide_model_write(folder, "wide", WIDE);
    snprintf(texts, sizeof texts, "%s/texts", folder);
    snprintf(wide, sizeof wide, "%s/wide", folder);
    the_daemon = daemon_start(ARGUMENTS(
        "--model", "tests/reference/linear_attention_lm_causal", "--model",
        "tests/reference/linear_attention_lm_causal_blindspot_1", "--model",
        "tests/reference/linear_attention_lm_causal_local_shift", "--model",
        "tests/reference/linear_attention_lm_everything", "--model", "tests/reference/linformer_pytorch_lm_causal",
        "--model", "tests/reference/linear_attention_encoder_decoder", "--model", texts, "--model", wide));
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    folder_remove(folder);
    free(folder);
    return 0;
}

/* Posts the body, and drops its reference. Expects 200 and JSON. */
static json_t *complete(const struct daemon *daemon, json_t *body)
{
    char *text = json_dumps(body, JSON_COMPACT);
    struct answer answer = daemon_post(daemon, "/v1/completions", text);
    json_t *json = json_loadb(answer.body, answer.length, JSON_ALLOW_NUL, NULL);
    if (answer.status != 200 || !json)
        fail_msg("%s: %ld %s", text, answer.status, answer.body);
    answer_free(&answer);
    free(text);
    json_decref(body);
    return json;
}

static const json_t *logprobs_at(const json_t *answer, size_t index, const char *key)
{
    const json_t *choice = json_array_get(json_object_get(answer, "choices"), index);
    const json_t *list = json_object_get(json_object_get(choice, "logprobs"), key);
    assert_true(json_is_array(list));
    return list;
}

/* Returns the largest value of an object. */
static double largest(const json_t *top)
{
    double most = -INFINITY;
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)top, name, value)
        most = fmax(most, json_number_value(value));
    return most;
}

/* Compares the tokens of choice `index` with a run of scores.json. After the prompt, the choice has `new` tokens. */
static void compare_scores(const json_t *answer, size_t index, const json_t *run, size_t new)
{
    const json_t *found = logprobs_at(answer, index, "token_logprobs"),
                 *top = logprobs_at(answer, index, "top_logprobs");
    const json_t *expected = json_object_get(run, "logprobs"), *best = json_object_get(run, "largest");
    size_t count = json_array_size(json_object_get(run, "prompt"));
    assert_int_equal(json_array_size(found), count + new);
    assert_int_equal(json_array_size(top), count + new);
    assert_int_equal(json_array_size(logprobs_at(answer, index, "tokens")), count + new);
    assert_int_equal(json_array_size(logprobs_at(answer, index, "text_offset")), count + new);
    assert_true(json_is_null(json_array_get(found, 0)));
    assert_true(json_is_null(json_array_get(top, 0)));
    for (size_t i = 1; i < count; i++) {
        double difference = json_number_at(found, i) - json_number_at(expected, i - 1);
        if (!(fabs(difference) <= TOLERANCE))
            fail_msg("%s: token %zu is %.9g, the library's is %.9g", json_string_value(json_object_get(run, "model")),
                     i, json_number_at(found, i), json_number_at(expected, i - 1));
        assert_true(fabs(largest(json_array_get(top, i)) - json_number_at(best, i - 1)) <= TOLERANCE);
        assert_in_range(json_object_size(json_array_get(top, i)), 1, 2);
    }
}

/* The requests of lm-evaluation-harness (lm_eval/models/openai_completions.py) are lists of ids with one new token. The
 * client class of the harness reads token_logprobs and top_logprobs from the end of the context on, and ignores the
 * last token. max_tokens 0 omits the new token. */
static void test_prompt_logprobs_are_those_of_the_library(void **state)
{
    (void)state;
    json_t *runs = json_of_file(SCORES), *run;
    size_t i;
    assert_int_equal(json_array_size(runs), 5);
    json_array_foreach (runs, i, run)
        for (int new = 0; new < 2; new ++) {
            const json_t *prompt = json_object_get(run, "prompt");
            json_t *answer =
                complete(the_daemon, json_pack("{s:O,s:[O,O],s:i,s:i,s:i,s:i,s:b}", "model",
                                               json_object_get(run, "model"), "prompt", prompt, prompt, "temperature",
                                               0, "max_tokens", new, "logprobs", 1, "seed", 1234, "echo", 1));
            compare_scores(answer, 0, run, (size_t) new);
            compare_scores(answer, 1, run, (size_t) new);
            json_decref(answer);
        }
    json_decref(runs);
}

/* Compares the scores of a prompt with the probabilities of /logits. /logits computes all rows in one batch. */
static void compare_with_logits(const struct daemon *daemon, const char *model, const int *ids, size_t count)
{
    json_t *prompt = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(prompt, json_integer(ids[i]));
    json_t *answer = complete(daemon, json_pack("{s:s,s:O,s:i,s:i,s:b}", "model", model, "prompt", prompt, "max_tokens",
                                                0, "logprobs", 0, "echo", 1));
    const json_t *scores = logprobs_at(answer, 0, "token_logprobs");
    assert_int_equal(json_array_size(scores), count);
    for (size_t first = 0; first + 1 < count; first += 50 * EACH) { /* a request for up to 50 rows of /logits */
        json_t *positions = json_array();
        for (size_t i = first; i < first + 50 * EACH && i + 1 < count; i += EACH)
            json_array_append_new(positions, json_integer((json_int_t)i));
        json_t *body =
            json_pack("{s:s,s:[O],s:O,s:b}", "model", model, "inputs", prompt, "positions", positions, "softmax", 1);
        char *text = json_dumps(body, JSON_COMPACT);
        json_t *logits = daemon_post_json(daemon, "/logits", text);
        const json_t *rows = json_object_get(json_array_get(logits, 0), "logits");
        for (size_t i = 0; i < json_array_size(positions); i++) {
            size_t token = first + i * EACH + 1;
            double found = json_number_at(scores, token);
            double expected = log(json_number_at(json_array_get(rows, i), (size_t)ids[token]));
            if (!(fabs(found - expected) <= TOLERANCE * fmax(1, fabs(expected))))
                fail_msg("%s: token %zu is %.9g, by /logits %.9g", model, token, found, expected);
        }
        json_decref(logits);
        json_decref(body);
        json_decref(positions);
        free(text);
    }
    json_decref(answer);
    json_decref(prompt);
}

/* The logits of many rows would need too much memory, so the blocks have only a few rows. */
static void test_a_large_vocabulary_has_the_logprobs_of_logits(void **state)
{
    (void)state;
    int ids[60];
    for (int i = 0; i < 60; i++)
        ids[i] = i * i * 31 % WIDE;
    compare_with_logits(the_daemon, "wide", ids, LENGTH(ids));
}

/* Without slots, each block of rows is computed together with all rows before it. The model "builtin-writer" reads a
 * long prompt in parts. */
static void test_long_prompts_have_the_logprobs_of_logits(void **state)
{
    (void)state;
    static const char *const slots[] = {"64", "0"};
    int ids[1000];
    for (size_t i = 0; i < LENGTH(ids); i++)
        ids[i] = (int)(i * i * 7 % 499);
    for (size_t i = 0; i < LENGTH(slots); i++) {
        struct daemon *daemon = daemon_start(ARGUMENTS("--max-generations", slots[i]));
        compare_with_logits(daemon, "builtin-writer", ids, i == 0 ? LENGTH(ids) : 600);
        daemon_stop(daemon);
    }
}

static void expect_offsets(const json_t *answer, size_t index, const char *text, const int *offsets, size_t count)
{
    const json_t *choice = json_array_get(json_object_get(answer, "choices"), index);
    const json_t *found = logprobs_at(answer, index, "text_offset");
    assert_string_equal(json_string_value(json_object_get(choice, "text")), text);
    assert_int_equal(json_array_size(found), count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(json_integer_value(json_array_get(found, i)), offsets[i]);
}

/* text_offset counts characters of `text`, for a text and for its ids. `text` does not contain the prompt of
 * config.json. */
static void test_text_offset_counts_characters_of_the_text(void **state)
{
    (void)state;
    static const int offsets[] = {0, 1, 2, 3, 3, 4}, prefixed[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    json_t *answer = complete(the_daemon, json_pack("{s:s,s:[s,[i,i,i,i,i,i]],s:i,s:i,s:b}", "model", "texts", "prompt",
                                                    "caf\xc3\xa9!", 102, 100, 105, 198, 172, 36, "max_tokens", 0,
                                                    "logprobs", 0, "echo", 1));
    const json_t *tokens = logprobs_at(answer, 0, "tokens");
    expect_offsets(answer, 0, "caf\xc3\xa9!", offsets, LENGTH(offsets));
    expect_offsets(answer, 1, "caf\xc3\xa9!", offsets, LENGTH(offsets));
    assert_string_equal(json_string_value(json_array_get(tokens, 0)), "c");
    assert_string_equal(json_string_value(json_array_get(tokens, 3)), "bytes:\\xc3");
    assert_true(json_equal(logprobs_at(answer, 0, "token_logprobs"), logprobs_at(answer, 1, "token_logprobs")));
    json_decref(answer);
    answer = complete(the_daemon, json_pack("{s:s,s:s,s:s,s:i,s:i,s:b}", "model", "texts", "prompt", "ab",
                                            "prompt_name", "query", "max_tokens", 0, "logprobs", 2, "echo", 1));
    expect_offsets(answer, 0, "ab", prefixed, LENGTH(prefixed));
    json_decref(answer);
}

/* The log-probabilities and offsets of new tokens follow those of the prompt. */
static void test_logprobs_of_new_tokens_follow_those_of_the_prompt(void **state)
{
    (void)state;
    json_t *plain = complete(the_daemon, json_pack("{s:s,s:s,s:i,s:i,s:i}", "model", "texts", "prompt", "ab", "seed", 3,
                                                   "max_tokens", 20, "logprobs", 2));
    json_t *echo = complete(the_daemon, json_pack("{s:s,s:s,s:i,s:i,s:i,s:b}", "model", "texts", "prompt", "ab", "seed",
                                                  3, "max_tokens", 20, "logprobs", 2, "echo", 1));
    static const char *const keys[] = {"token_logprobs", "tokens", "top_logprobs", "text_offset"};
    for (size_t k = 0; k < LENGTH(keys); k++) {
        const json_t *all = logprobs_at(echo, 0, keys[k]), *new = logprobs_at(plain, 0, keys[k]);
        assert_int_equal(json_array_size(all), json_array_size(new) + 2);
        for (size_t i = 0; i < json_array_size(new); i++) {
            const json_t *found = json_array_get(all, i + 2), *expected = json_array_get(new, i);
            if (k == 3)
                assert_int_equal(json_integer_value(found), json_integer_value(expected) + 2);
            else
                assert_true(json_equal(found, expected));
        }
    }
    json_decref(plain);
    json_decref(echo);
}

static void test_logprobs_of_an_encoders_prompt_are_refused(void **state)
{
    (void)state;
    struct answer answer =
        daemon_post(the_daemon, "/v1/completions",
                    "{\"model\":\"linear_attention_encoder_decoder\",\"prompt\":[1,2],\"echo\":true,\"logprobs\":1}");
    assert_int_equal(answer.status, 400);
    assert_non_null(strstr(answer.body, "an encoder reads the prompt"));
    answer_free(&answer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prompt_logprobs_are_those_of_the_library),
        cmocka_unit_test(test_a_large_vocabulary_has_the_logprobs_of_logits),
        cmocka_unit_test(test_long_prompts_have_the_logprobs_of_logits),
        cmocka_unit_test(test_text_offset_counts_characters_of_the_text),
        cmocka_unit_test(test_logprobs_of_new_tokens_follow_those_of_the_prompt),
        cmocka_unit_test(test_logprobs_of_an_encoders_prompt_are_refused),
    };
    return cmocka_run_group_tests_name("prompt_logprobs", tests, start, stop);
}
