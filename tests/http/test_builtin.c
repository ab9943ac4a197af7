/* The built-in model "builtin" as the binary contains it. Its filled masks and cosines are compared with those of
 * PyTorch with the same weights (weights/builtin/examples.json). */
#include "tests/http/the_daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLES "weights/builtin/examples.json"

static json_t *examples;

static int start(void **state)
{
    examples = json_of_file(EXAMPLES);
    return the_daemon_start_built_in(state);
}

static int stop(void **state)
{
    json_decref(examples);
    return the_daemon_stop(state);
}

static json_t *post(const char *path, json_t *body)
{
    char *text = json_dumps(body, 0);
    json_t *answer = daemon_post_json(the_daemon, path, text);
    free(text);
    json_decref(body);
    return answer;
}

/* Fails if the numbers differ by more than `difference`. The examples store 4 digits of a probability, and 3 digits of
 * a cosine. */
static void assert_near(const json_t *found, const json_t *expected, double difference)
{
    assert_true(json_is_number(found) && json_is_number(expected));
    if (fabs(json_number_value(found) - json_number_value(expected)) > difference)
        fail_msg("%g in place of %g", json_number_value(found), json_number_value(expected));
}

static void masks_are_filled_as_in_pytorch(void **state)
{
    (void)state;
    json_t *example, *guess;
    size_t i, j;
    json_array_foreach (json_object_get(examples, "fill"), i, example) {
        json_t *top = json_object_get(json_array_get(json_object_get(example, "masked"), 0), "top");
        json_t *answer = post("/fill-mask", json_pack("{s:O, s:{s:i}}", "inputs", json_object_get(example, "text"),
                                                      "parameters", "top_k", (int)json_array_size(top)));
        assert_true(json_array_size(top) > 0);
        assert_int_equal(json_array_size(answer), json_array_size(top));
        json_array_foreach (top, j, guess) {
            const json_t *found = json_array_get(answer, j);
            assert_true(json_equal(json_object_get(found, "token_str"), json_object_get(guess, "text")));
            assert_near(json_object_get(found, "score"), json_object_get(guess, "probability"), 1e-4);
        }
        json_decref(answer);
    }
    assert_true(i > 0);
}

static void texts_are_as_similar_as_in_pytorch(void **state)
{
    (void)state;
    json_t *alike = json_object_get(examples, "alike"), *texts = json_object_get(alike, "texts"), *text, *cosine;
    json_t *sentences = json_array();
    const char *name, *other;
    json_object_foreach (texts, name, text)
        json_array_append(sentences, text);
    assert_true(json_array_size(sentences) > 1);
    json_object_foreach (texts, name, text) {
        json_t *answer =
            post("/similarity", json_pack("{s:{s:O, s:O}}", "inputs", "source_sentence", text, "sentences", sentences));
        size_t at = 0;
        json_object_foreach (json_object_get(json_object_get(alike, "cosines"), name), other, cosine)
            assert_near(json_array_get(answer, at++), cosine, 1e-3);
        assert_int_equal(at, json_array_size(sentences));
        json_decref(answer);
    }
    json_decref(sentences);
}

/* The text has 512 tokens, most of them equal. The model counts the repetitions of each token, and this count is large
 * for this text. */
static void the_longest_text_is_read(void **state)
{
    (void)state;
    json_t *ids = json_array();
    for (int i = 0; i < 512; i++)
        json_array_append_new(ids, json_integer(i % 64 < 60 ? 300 : 400 + i));
    json_t *answer = post("/embed", json_pack("{s:[O]}", "inputs", ids));
    assert_int_equal(json_array_size(answer), 1);
    json_decref(answer);
    json_array_append_new(ids, json_integer(300));
    char *text = json_dumps(ids, 0), body[8192];
    assert_true(snprintf(body, sizeof body, "{\"inputs\": [%s]}", text) < (int)sizeof body);
    struct answer refused = daemon_post(the_daemon, "/embed", body);
    assert_int_equal(refused.status, 422);
    answer_free(&refused);
    free(text);
    json_decref(ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_filled_as_in_pytorch),
        cmocka_unit_test(texts_are_as_similar_as_in_pytorch),
        cmocka_unit_test(the_longest_text_is_read),
    };
    return cmocka_run_group_tests_name("builtin", tests, start, stop);
}
