/* /logits with two models that accept only ids, and with a model that accepts floats and returns no logits. */
#include "tests/http/the_daemon.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int start(void **state)
{
    (void)state;
    the_daemon = daemon_start(ARGUMENTS("--model", "lm=tests/reference/linformer_lm", "--model",
                                        "bytes=tests/reference/linear_attention_lm_linformer", "--model",
                                        "encoder=tests/reference/linformer_encoder"));
    return 0;
}

static json_t *only(json_t *list)
{
    assert_int_equal(json_array_size(list), 1);
    return json_array_get(list, 0);
}

static void all_positions_are_the_default(void **state)
{
    (void)state;
    json_t *plain = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6, 7]}");
    json_t *all = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [[5, 6, 7]], \"positions\": \"all\"}");
    json_t *positions = json_object_get(only(plain), "positions"), *logits = json_object_get(only(plain), "logits");
    assert_true(json_equal(plain, all));
    assert_int_equal(json_array_size(positions), 3);
    assert_int_equal(json_array_size(logits), 3);
    assert_int_equal(json_array_size(json_array_get(logits, 2)), 97);
    assert_int_equal(json_integer_value(json_array_get(positions, 2)), 2);
    assert_null(json_object_get(only(plain), "tokens"));
    json_decref(plain);
    json_decref(all);
}

static void rows_of_chosen_positions_are_those_of_all_positions(void **state)
{
    (void)state;
    json_t *all = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6, 7]}");
    json_t *some = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6, 7], \"positions\": [2, 0, 2]}");
    json_t *last = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6, 7], \"positions\": \"last\"}");
    json_t *rows = json_object_get(only(all), "logits");
    assert_int_equal(json_array_size(json_object_get(only(some), "logits")), 3);
    for (size_t i = 0; i < 97; i++) {
        double wanted = json_number_at(json_array_get(rows, 2), i), first = json_number_at(json_array_get(rows, 0), i);

        assert_true(fabs(json_number_at(json_array_get(json_object_get(only(some), "logits"), 0), i) - wanted) < 1e-5);
        assert_true(fabs(json_number_at(json_array_get(json_object_get(only(some), "logits"), 1), i) - first) < 1e-5);
        assert_true(fabs(json_number_at(json_array_get(json_object_get(only(last), "logits"), 0), i) - wanted) < 1e-5);
    }
    assert_int_equal(json_integer_value(json_array_get(json_object_get(only(last), "positions"), 0)), 2);
    json_decref(all);
    json_decref(some);
    json_decref(last);
}

static void positions_last_is_the_last_position_of_each_input(void **state)
{
    (void)state;
    json_t *list = daemon_post_json(the_daemon, "/logits",
                                    "{\"inputs\": [[5, 6, 7], [8]], \"positions\": \"last\", \"top_k\": 1}");
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(json_array_get(list, 0), "positions"), 0)), 2);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(json_array_get(list, 1), "positions"), 0)), 0);
    json_decref(list);
}

static void top_k_is_the_best_of_all(void **state)
{
    (void)state;
    json_t *all = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6, 7], \"positions\": [1]}");
    json_t *best =
        daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6, 7], \"positions\": [1], \"top_k\": 97}");
    json_t *row = json_array_get(json_object_get(only(all), "logits"), 0);
    json_t *tokens = json_array_get(json_object_get(only(best), "tokens"), 0);
    json_t *values = json_array_get(json_object_get(only(best), "logits"), 0);
    assert_int_equal(json_array_size(tokens), 97);
    assert_int_equal(json_array_size(values), 97);
    for (size_t i = 0; i < 97; i++) {
        size_t token = (size_t)json_integer_value(json_array_get(tokens, i));

        assert_true(fabs(json_number_at(values, i) - json_number_at(row, token)) < 1e-5);
        if (i > 0)
            assert_true(json_number_at(values, i) <= json_number_at(values, i - 1));
    }
    assert_null(json_object_get(only(best), "text")); /* without a tokenizer, candidates have no text */
    json_decref(all);
    json_decref(best);
}

static void repeated_positions_have_the_same_row(void **state)
{
    (void)state;
    static const int positions[] = {0, 0, 1, 1, 0};
    json_t *each = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6], \"positions\": [0, 1], \"top_k\": 2}");
    json_t *list =
        daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6], \"positions\": [0, 0, 1, 1, 0], \"top_k\": 2}");
    for (size_t i = 0; i < LENGTH(positions); i++) {
        size_t place = (size_t)positions[i];

        assert_int_equal(json_number_at(json_object_get(only(list), "positions"), i), positions[i]);
        for (size_t k = 0; k < 2; k++) {
            const char *key = ((const char *const[]){"logits", "tokens"})[k];

            assert_int_equal(json_array_size(json_object_get(only(list), key)), LENGTH(positions));
            assert_true(json_equal(json_array_get(json_object_get(only(list), key), i),
                                   json_array_get(json_object_get(only(each), key), place)));
        }
    }
    json_decref(each);
    json_decref(list);
    expect_failure(the_daemon, "/logits", "{\"inputs\": [5, 6], \"positions\": [0, 0, 2]}", 422, "Validation",
                   "positions[2] is 2, but inputs has 2 tokens");
}

static void softmax_sums_to_one(void **state)
{
    (void)state;
    json_t *list = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6], \"softmax\": true}");
    json_t *row = json_array_get(json_object_get(only(list), "logits"), 1);
    double sum = 0;
    for (size_t i = 0; i < json_array_size(row); i++) {
        assert_true(json_number_at(row, i) >= 0);
        sum += json_number_at(row, i);
    }
    assert_true(fabs(sum - 1) < 1e-4);
    json_decref(list);
}

static void base64_has_one_string_for_each_row(void **state)
{
    (void)state;
    json_t *list = daemon_post_json(the_daemon, "/logits", "{\"inputs\": [5, 6], \"encoding_format\": \"base64\"}");
    json_t *logits = json_object_get(only(list), "logits");
    assert_int_equal(json_array_size(logits), 2);
    assert_int_equal(json_string_length(json_array_get(logits, 0)), (97 * 4 + 2) / 3 * 4);
    json_decref(list);
}

static void models_are_chosen_by_name(void **state)
{
    (void)state;
    json_t *list =
        daemon_post_json(the_daemon, "/logits", "{\"model\": \"bytes\", \"inputs\": [5, 6], \"positions\": \"last\"}");
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
    expect_failure(the_daemon, "/logits", "{\"model\": \"other\", \"inputs\": [5]}", 404, "Validation", "\"bytes\"");
    expect_failure(the_daemon, "/logits", "{\"model\": \"encoder\", \"embeddings\": [[1]]}", 422, "Validation",
                   "does not return logits");
    expect_failure(the_daemon, "/embed", "{\"model\": \"encoder\", \"inputs\": [1]}", 422, "Validation", "32 floats");
    expect_failure(the_daemon, "/embed", "{\"model\": \"lm\", \"embeddings\": [[1]]}", 422, "Validation",
                   "accepts ids");
    expect_failure(the_daemon, "/embed", "{\"model\": \"lm\", \"inputs\": \"text\"}", 422, "Validation", "tokenizer");
    expect_failure(the_daemon, "/tokenize", "{\"model\": \"lm\", \"inputs\": \"text\"}", 422, "Validation",
                   "tokenizer");
}

static void wrong_rows_of_floats_are_refused(void **state)
{
    (void)state;
    expect_failure(the_daemon, "/embed", "{\"model\": \"encoder\", \"embeddings\": [[1, 2]]}", 422, "Validation",
                   "embeddings[0] has 2 values");
    expect_failure(the_daemon, "/embed", "{\"model\": \"encoder\", \"embeddings\": [[[1, 2]], [3]]}", 422, "Validation",
                   "embeddings[0][0] has 2 values");
    expect_failure(the_daemon, "/embed",
                   "{\"model\": \"encoder\", \"embeddings\": [[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,"
                   "21,22,23,24,25,26,27,28,29,30,31,1e39]]}",
                   422, "Validation", "embeddings[0][31] is 1e+39");
    expect_failure(the_daemon, "/embed",
                   "{\"model\": \"encoder\", \"embeddings\": [[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,"
                   "21,22,23,24,25,26,27,28,29,30,31,\"32\"]]}",
                   422, "Validation", "embeddings[0][31] is a string");
    expect_failure(the_daemon, "/embed", "{\"model\": \"encoder\", \"embeddings\": []}", 422, "Validation", "empty");
}

static void wrong_positions_and_top_k_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *rest, *part;
    } cases[] = {
        {"\"positions\": [3]", "positions[0] is 3"},
        {"\"positions\": [0, -1]", "positions[1] is -1"},
        {"\"positions\": [99999999999]", "positions[0] is 99999999999"},
        {"\"positions\": [1.5]", "positions[0] is a float"},
        {"\"positions\": []", "positions is empty"},
        {"\"positions\": \"first\"", "positions is \"first\""},
        {"\"positions\": 1", "positions is an integer"},
        {"\"top_k\": 98", "model \"lm\" has only 97 logits for a token"},
        {"\"top_k\": 0", "top_k is 0"},
        {"\"top_k\": 2.0", "top_k is a float"},
        {"\"softmax\": 1", "softmax is an integer"},
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        char body[128];

        snprintf(body, sizeof body, "{\"inputs\": [[5, 6, 7]], %s}", cases[i].rest);
        expect_failure(the_daemon, "/logits", body, 422, "Validation", cases[i].part);
    }
    expect_failure(the_daemon, "/logits", "{\"inputs\": [[5, 6, 7], [1]], \"positions\": [2]}", 422, "Validation",
                   "inputs[1] has 1 tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_positions_are_the_default),
        cmocka_unit_test(rows_of_chosen_positions_are_those_of_all_positions),
        cmocka_unit_test(positions_last_is_the_last_position_of_each_input),
        cmocka_unit_test(top_k_is_the_best_of_all),
        cmocka_unit_test(repeated_positions_have_the_same_row),
        cmocka_unit_test(softmax_sums_to_one),
        cmocka_unit_test(base64_has_one_string_for_each_row),
        cmocka_unit_test(models_are_chosen_by_name),
        cmocka_unit_test(wrong_rows_of_floats_are_refused),
        cmocka_unit_test(wrong_positions_and_top_k_are_refused),
    };
    return cmocka_run_group_tests(tests, start, the_daemon_stop);
}
