/* /logits with `targets`: log-probabilities of given ids. test_reference.c compares them with the libraries'
 * outputs. */
#include "tests/http/the_daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDS 97         /* number of ids of the model "lm" */
#define DECODER_IDS 61 /* number of ids of the model "decoder" */

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--model", "lm=tests/reference/linformer_lm", "--model",
                                        "decoder=tests/reference/linear_attention_lm_causal", "--model",
                                        "encoder=tests/reference/linformer_encoder"));
    return 0;
}

/* Returns the log-probability of an id at a position, computed from all logits of the position. `ids` is the number of
 * ids of the model. */
static double expected_of(const char *body, size_t item, size_t position, size_t id, size_t ids)
{
    json_t *all = daemon_post_json(the_daemon, "/logits", body);
    json_t *row = json_array_get(json_object_get(json_array_get(all, item), "logits"), position);
    double most = -INFINITY, sum = 0;
    assert_int_equal(json_array_size(row), ids);
    for (size_t i = 0; i < ids; i++)
        most = fmax(most, json_number_at(row, i));
    for (size_t i = 0; i < ids; i++)
        sum += exp(json_number_at(row, i) - most);
    double result = json_number_at(row, id) - most - log(sum);
    json_decref(all);
    return result;
}

static double expected(const char *inputs, size_t item, size_t position, size_t id)
{
    char body[256];
    snprintf(body, sizeof body, "{\"inputs\": %s}", inputs);
    return expected_of(body, item, position, id, IDS);
}

/* Expects the log-probabilities of these targets. The target -1 has the log-probability null. */
static void expect_item(const json_t *answer, const char *inputs, size_t item, const int *targets, size_t count)
{
    const json_t *found = json_array_get(answer, item), *logprobs = json_object_get(found, "logprobs");
    double sum = 0;
    int n = 0;
    assert_int_equal(json_array_size(logprobs), count);
    for (size_t i = 0; i < count; i++) {
        if (targets[i] < 0) {
            assert_true(json_is_null(json_array_get(logprobs, i)));
            continue;
        }
        double wanted = expected(inputs, item, i, (size_t)targets[i]);
        assert_true(fabs(json_number_at(logprobs, i) - wanted) < 1e-5);
        sum += wanted;
        n++;
    }
    assert_int_equal(json_integer_value(json_object_get(found, "n")), n);
    if (n == 0)
        assert_true(json_is_null(json_object_get(found, "mean_logprob")));
    else
        assert_true(fabs(json_number_value(json_object_get(found, "mean_logprob")) - sum / n) < 1e-5);
    assert_null(json_object_get(found, "logits"));
}

static void each_position_has_the_logprob_of_its_target(void **state)
{
    (void)state;
    const char *inputs = "[[5, 6, 7], [8, 9]]";
    json_t *list =
        daemon_post_json(the_daemon, "/logits", "{\"inputs\": [[5, 6, 7], [8, 9]], \"targets\": [[0, 96, 7], [1, 1]]}");
    assert_int_equal(json_array_size(list), 2);
    expect_item(list, inputs, 0, (const int[]){0, 96, 7}, 3);
    expect_item(list, inputs, 1, (const int[]){1, 1}, 2);
    json_decref(list);
}

static void positions_without_a_target_have_no_logprob(void **state)
{
    (void)state;
    static const char *const targets[] = {"[[-100, 4, -100], [-100, -100]]", "[[null, 4, -100], [null, null]]"};
    const char *inputs = "[[5, 6, 7], [8, 9]]";
    for (size_t i = 0; i < LENGTH(targets); i++) {
        char body[128];
        snprintf(body, sizeof body, "{\"inputs\": %s, \"targets\": %s}", inputs, targets[i]);
        json_t *list = daemon_post_json(the_daemon, "/logits", body);
        expect_item(list, inputs, 0, (const int[]){-1, 4, -1}, 3);
        expect_item(list, inputs, 1, (const int[]){-1, -1}, 2);
        json_decref(list);
    }
}

static void targets_next_are_the_input_shifted_by_one(void **state)
{
    (void)state;
    json_t *list = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [[5, 6, 7], [8]], \"targets\": \"next\"}");
    json_t *given =
        daemon_post_json(the_daemon, "/logits", "{\"inputs\": [[5, 6, 7], [8]], \"targets\": [[6, 7, null], [-100]]}");
    expect_item(list, "[[5, 6, 7], [8]]", 0, (const int[]){6, 7, -1}, 3);
    expect_item(list, "[[5, 6, 7], [8]]", 1, (const int[]){-1}, 1);
    assert_true(json_equal(list, given));
    json_decref(list);
    json_decref(given);
    /* The model is causal. So the log-probability of a token follows from the input that ends before this token. */
    list = daemon_post_json(the_daemon, "/logits",
                            "{\"model\": \"decoder\", \"inputs\": [5, 6, 7], \"targets\": \"next\"}");
    const json_t *logprobs = json_object_get(json_array_get(list, 0), "logprobs");
    double first = expected_of("{\"model\": \"decoder\", \"inputs\": [5]}", 0, 0, 6, DECODER_IDS);
    double second = expected_of("{\"model\": \"decoder\", \"inputs\": [5, 6]}", 0, 1, 7, DECODER_IDS);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "n")), 2);
    assert_int_equal(json_array_size(logprobs), 3);
    assert_true(fabs(json_number_at(logprobs, 0) - first) < 1e-5);
    assert_true(fabs(json_number_at(logprobs, 1) - second) < 1e-5);
    assert_true(json_is_null(json_array_get(logprobs, 2)));
    json_decref(list);
}

static void one_input_accepts_one_list_of_targets(void **state)
{
    (void)state;
    json_t *list = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6], \"targets\": [6, -100]}");
    assert_int_equal(json_array_size(list), 1);
    expect_item(list, "[5, 6]", 0, (const int[]){6, -1}, 2);
    json_decref(list);
}

/* "next" means the next token of the truncated input. */
static void targets_next_belong_to_the_truncated_input(void **state)
{
    (void)state;
    char body[2048] = "{\"truncate\": true, \"targets\": \"next\", \"inputs\": [5";
    for (int i = 0; i < 300; i++)
        strcat(body, ",6");
    strcat(body, "]}");
    json_t *list = daemon_post_json(the_daemon, "/logits", body), *item = json_array_get(list, 0);
    size_t length = json_array_size(json_object_get(item, "logprobs"));
    assert_in_range(length, 2, 299);
    assert_int_equal(json_integer_value(json_object_get(item, "n")), length - 1);
    json_decref(list);
}

static void base64_has_nan_for_positions_without_a_target(void **state)
{
    (void)state;
    json_t *list = daemon_post_json(the_daemon, "/logits",
                                    "{\"inputs\": [5, 6], \"targets\": \"next\", \"encoding_format\": \"base64\"}");
    const char *text = json_string_value(json_object_get(json_array_get(list, 0), "logprobs"));
    double wanted = expected("[5, 6]", 0, 0, 6);
    /* 8 bytes are 12 characters of base64. They are an F32 and the bits of a NaN, 0x7fc00000 little-endian. */
    assert_non_null(text);
    assert_int_equal(strlen(text), 12);
    assert_string_equal(text + 8, "wH8=");
    assert_true(fabs(json_number_value(json_object_get(json_array_get(list, 0), "mean_logprob")) - wanted) < 1e-5);
    json_decref(list);
}

static void wrong_targets_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *rest, *part;
    } cases[] = {
        {"\"targets\": [[1, 2]]", "targets has 1 elements, but the request has 2 inputs"},
        {"\"targets\": [[1, 2], [3]]",
         "targets[0] has 2 ids, but inputs[0] has 3 tokens: one id for each token was expected"},
        {"\"targets\": [[1, 2], [3, 4, 5]]", "targets[0] has 2 ids, but inputs[0] has 3 tokens"},
        {"\"targets\": [[1, 2, 3], []]", "targets[1] has 0 ids, but inputs[1] has 2 tokens"},
        {"\"targets\": [1, 2]", "targets[0] is an integer, a list of ids was expected"},
        {"\"targets\": [[[1]], [[2]]]", "targets[0] has 1 ids"},
        {"\"targets\": [[1, 2, 97], [3, 4]]",
         "targets[0][2] is 97; targets of model \"lm\" are ids below 97, -100 or null"},
        {"\"targets\": [[1, 2, 3], [3, -1]]", "targets[1][1] is -1"},
        {"\"targets\": [[1, 2, 3], [3, -101]]", "targets[1][1] is -101"},
        {"\"targets\": [[1, 2, 3], [4294967297, 3]]", "targets[1][0] is 4294967297"},
        {"\"targets\": [[1, 2, 3], [9223372036854775807, 3]]", "targets[1][0] is 9223372036854775807"},
        {"\"targets\": [[1, 2, 3], [1.0, 3]]", "targets[1][0] is a float, an id, -100 or null was expected"},
        {"\"targets\": [[1, 2, 3], [-100.0, 3]]", "targets[1][0] is a float"},
        {"\"targets\": [[1, 2, 3], [\"3\", 3]]", "targets[1][0] is a string"},
        {"\"targets\": \"previous\"", "targets is \"previous\", \"next\" or lists of ids were expected"},
        {"\"targets\": \"ne\\u0000xt\"", "targets is a string"},
        {"\"targets\": 5", "targets is an integer, \"next\" or lists of ids were expected"},
        {"\"targets\": {}", "targets is an object"},
        {"\"targets\": \"next\", \"positions\": \"last\"", "both targets and positions are given"},
        {"\"targets\": \"next\", \"top_k\": 1", "both targets and top_k are given"},
        {"\"targets\": \"next\", \"softmax\": true", "both targets and softmax are given"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char body[160];
        snprintf(body, sizeof body, "{\"inputs\": [[5, 6, 7], [8, 9]], %s}", cases[i].rest);
        expect_failure(the_daemon, "/logits", body, 422, "Validation", cases[i].part);
    }
    expect_failure(the_daemon, "/logits", "{\"model\": \"encoder\", \"embeddings\": [[1]], \"targets\": \"next\"}", 422,
                   "Validation", "does not return logits");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_position_has_the_logprob_of_its_target),
        cmocka_unit_test(positions_without_a_target_have_no_logprob),
        cmocka_unit_test(targets_next_are_the_input_shifted_by_one),
        cmocka_unit_test(one_input_accepts_one_list_of_targets),
        cmocka_unit_test(targets_next_belong_to_the_truncated_input),
        cmocka_unit_test(base64_has_nan_for_positions_without_a_target),
        cmocka_unit_test(wrong_targets_are_refused),
    };
    return cmocka_run_group_tests(tests, start, the_daemon_stop);
}
