/* The native routes on a fake engine, whose results a test can foretell. */
#include "tests/http/native_call.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>

static json_t *expect_answer(const char *path, const char *body)
{
    struct request request;
    json_t *json;

    fake_reset();
    if (native_call(path, body, strlen(body), &request))
        print_error("%s %s: %s\n", path, body, request.failure.error.message);
    assert_int_equal(request.failure.kind, FAILURE_NONE);
    json = json_loadb(request.answer.data, request.answer.length, JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    request_close(&request);
    return json;
}

static void expect_failure(const char *path, const char *body, enum failure_kind kind, const char *message)
{
    struct request request;

    fake_reset();
    assert_int_equal(native_call(path, body, strlen(body), &request), -1);
    assert_int_equal(request.failure.kind, kind);
    assert_string_equal(request.failure.error.message, message);
    request_close(&request);
}

static float value_at(const json_t *rows, size_t row, size_t column)
{
    return (float)json_number_value(json_array_get(json_array_get(rows, row), column));
}

static void rows_are_those_of_their_input(void **state)
{
    json_t *all = expect_answer("/embed_all", "{\"model\": \"ids\", \"inputs\": [[7, 8], [9]]}");

    (void)state;
    assert_int_equal(json_array_size(all), 2);
    assert_int_equal(json_array_size(json_array_get(all, 0)), 2);
    for (int column = 0; column < FAKE_COLUMNS; column++) {
        assert_true(value_at(json_array_get(all, 0), 1, (size_t)column) == fake_hidden(8, 1, column));
        assert_true(value_at(json_array_get(all, 1), 0, (size_t)column) == fake_hidden(9, 0, column));
    }
    json_decref(all);
}

static void vectors_are_cut_then_normalised(void **state)
{
    json_t *list =
        expect_answer("/embed", "{\"model\": \"ids\", \"inputs\": [7], \"dimensions\": 2, \"normalize\": true}");
    double a = fake_hidden(7, 0, 0), b = fake_hidden(7, 0, 1), norm = sqrt(a * a + b * b);

    (void)state;
    assert_int_equal(json_array_size(json_array_get(list, 0)), 2);
    assert_true(value_at(list, 0, 0) == (float)(a / norm));
    assert_true(value_at(list, 0, 1) == (float)(b / norm));
    json_decref(list);
}

static void the_best_have_their_text(void **state)
{
    json_t *list = expect_answer("/logits", "{\"inputs\": \"abc\", \"positions\": [2], \"top_k\": 259}");
    json_t *item = json_array_get(list, 0), *tokens = json_array_get(json_object_get(item, "tokens"), 0),
           *texts = json_array_get(json_object_get(item, "text"), 0);

    (void)state;
    assert_int_equal(json_array_size(texts), 259);
    for (size_t i = 0; i < 259; i++) {
        int id = (int)json_integer_value(json_array_get(tokens, i));
        const char *text = json_string_value(json_array_get(texts, i));
        char letter[2] = {(char)(id - 3), '\0'};

        if (id == 2)
            assert_string_equal(text, "[MASK]");
        else if (id < 2)
            assert_string_equal(text, "");
        else if (id >= 3 + 0x80)
            assert_string_equal(text, "\xEF\xBF\xBD");
        else if (id > 3)
            assert_string_equal(text, letter);
    }
    json_decref(list);
}

static void results_have_a_bound(void **state)
{
    int64_t limit = native_service.results.limit;

    (void)state;
    native_service.results.limit = 10000;
    expect_failure(
        "/logits", "{\"inputs\": \"abc\"}", FAILURE_INVALID,
        "the results would take 12456 bytes, this server gives them 10000: ask for fewer inputs at once, for "
        "less of each, or for top_k");
    native_service.results.used = 9990;
    expect_failure("/logits", "{\"inputs\": \"abc\", \"top_k\": 1}", FAILURE_OVERLOADED,
                   "the results of other requests take the memory that this one needs; try again later");
    assert_int_equal(native_service.results.used, 9990);
    native_service.results.used = 0;
    native_service.results.limit = limit;
}

static void what_the_model_refuses_names_the_input(void **state)
{
    (void)state;
    expect_failure("/embed", "{\"inputs\": [[1], [2], [3], [4, 5, 260]]}", FAILURE_INVALID,
                   "inputs[3][2] is 260; ids of model \"bytes\" are below 259");
    expect_failure("/embed", "{\"inputs\": [\"a\"], \"model\": \"none\"}", FAILURE_NO_MODEL,
                   "there is no model \"none\" here, only \"bytes\", \"ids\", \"rows\"");
    expect_failure("/embed", "{\"inputs\": [1], \"normalise\": true}", FAILURE_INVALID,
                   "unknown key \"normalise\"; known are inputs, embeddings, model, truncate, truncation_direction, "
                   "encoding_format, normalize, pooling, dimensions");
    expect_failure("/embed", "{\n\"inputs\": tru}", FAILURE_MALFORMED,
                   "the body is not JSON: line 2 column 13: invalid token near 'tru'");
}

static int open_models(void **state)
{
    (void)state;
    native_open();
    return 0;
}

static int close_models(void **state)
{
    (void)state;
    native_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_their_input),
        cmocka_unit_test(vectors_are_cut_then_normalised),
        cmocka_unit_test(the_best_have_their_text),
        cmocka_unit_test(results_have_a_bound),
        cmocka_unit_test(what_the_model_refuses_names_the_input),
    };

    return cmocka_run_group_tests(tests, open_models, close_models);
}
