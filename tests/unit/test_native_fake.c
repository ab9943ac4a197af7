/* Answers and messages of the native routes with the fake engine. The results of this engine are simple functions, so
 * the test can compute them. */
#include "tests/unit/native_expect.h"

#include <math.h>
#include <stdio.h>

static float value_at(const json_t *rows, size_t row, size_t column)
{
    return (float)json_number_value(json_array_get(json_array_get(rows, row), column));
}

/* Calls a route, and checks the ids of the only item of its job. */
static void expect_ids(const char *path, const char *body, size_t count, const int32_t *ids)
{
    struct request request;
    fake_reset();
    if (native_call(path, body, strlen(body), &request) != 0)
        fail_msg("%s %s: %s", path, body, request.failure.error.message);
    assert_int_equal(request.job.n_items, 1);
    assert_int_equal(request.job.items[0].inputs[0].length, count);
    assert_memory_equal(request.job.items[0].inputs[0].data, ids, count * sizeof *ids);
    request_close(&request);
    assert_int_equal(atomic_load(&native_service.results.used), 0);
}

static void rows_are_those_of_their_input(void **state)
{
    (void)state;
    json_t *all = expect_answer("/embed_all", "{\"model\": \"ids\", \"inputs\": [[7, 8], [9]]}");
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
    (void)state;
    json_t *list =
        expect_answer("/embed", "{\"model\": \"ids\", \"inputs\": [7], \"dimensions\": 2, \"normalize\": true}");
    double a = fake_hidden(7, 0, 0), b = fake_hidden(7, 0, 1), norm = sqrt(a * a + b * b);
    assert_int_equal(json_array_size(json_array_get(list, 0)), 2);
    assert_true(value_at(list, 0, 0) == (float)(a / norm));
    assert_true(value_at(list, 0, 1) == (float)(b / norm));
    json_decref(list);
}

static void the_best_tokens_have_their_texts(void **state)
{
    (void)state;
    json_t *list = expect_answer("/logits", "{\"inputs\": \"abc\", \"positions\": [2], \"top_k\": 259}");
    json_t *item = json_array_get(list, 0), *tokens = json_array_get(json_object_get(item, "tokens"), 0),
           *texts = json_array_get(json_object_get(item, "text"), 0);
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

static void texts_may_contain_nul(void **state)
{
    (void)state;
    json_t *tokens = expect_answer("/tokenize", "{\"inputs\": \"a\\u0000b\"}");
    assert_int_equal(json_array_size(json_array_get(tokens, 0)), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(json_array_get(tokens, 0), 1), "id")), 3);
    json_decref(tokens);
    expect_failure("/embed", "{\"inputs\": \"a\", \"pooling\": \"mean\\u0000\"}", FAILURE_INVALID,
                   "pooling contains a NUL character");
    expect_failure("/embed", "{\"inputs\": \"a\", \"model\": \"bytes\\u0000\"}", FAILURE_INVALID,
                   "model contains a NUL character");
    expect_failure("/logits", "{\"inputs\": \"a\", \"positions\": \"all\\u0000\"}", FAILURE_INVALID,
                   "positions contains a NUL character");
    expect_failure("/embed", "{\"inp\\u0000uts\": \"a\"}", FAILURE_MALFORMED,
                   "the body is not JSON: line 1 column 15: a key contains a NUL character, which is not supported");
}

/* The expected ids are those of the package `tokenizers`: [CLS] is 2, [SEP] is 3, [MASK] is 4, and "ab" is 43 and
 * 373. */
static void texts_have_the_ids_of_their_tokenizer(void **state)
{
    (void)state;
    static const int32_t both[] = {2, 43, 373, 3}, masked[] = {2, 4, 43, 373, 3};
    expect_ids("/embed", "{\"model\": \"words\", \"inputs\": \"ab\"}", 4, both);
    expect_ids("/embed", "{\"model\": \"words\", \"inputs\": \"ab\", \"add_special_tokens\": false}", 2, both + 1);
    expect_ids("/embed_all", "{\"model\": \"words\", \"inputs\": [\"AB\"]}", 4, both);
    expect_ids("/logits", "{\"model\": \"words\", \"inputs\": [\"[MASK] ab\"], \"positions\": [1]}", 5, masked);
    expect_ids("/v1/embeddings", "{\"model\": \"words\", \"input\": \"ab\"}", 4, both);
    expect_ids("/v2/models/words/infer",
               "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"BYTES\", \"shape\": [1], \"data\": [\"ab\"]}]}", 4,
               both);
    expect_ids("/v2/models/words/infer",
               "{\"parameters\": {\"add_special_tokens\": false}, \"inputs\": [{\"name\": \"x\", \"datatype\": "
               "\"BYTES\", \"shape\": [1, 1], \"data\": [[\"ab\"]]}]}",
               2, both + 1);
}

/* The message must name the key of the route that contains the text. */
static void a_text_too_long_is_refused_or_cut(void **state)
{
    (void)state;
    static const char *const routes[][2] = {
        {"/embed", "{\"model\": \"words\", \"inputs\": \"%s\"%s}"},
        {"/embed_all", "{\"model\": \"words\", \"inputs\": \"%s\"%s}"},
        {"/logits", "{\"model\": \"words\", \"positions\": \"last\", \"inputs\": \"%s\"%s}"},
        {"/v1/embeddings", "{\"model\": \"words\", \"input\": \"%s\"%s}"},
        {"/v2/models/words/infer",
         "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"BYTES\", \"shape\": [1], \"data\": [\"%s\"]}]%s}"},
    };
    static const char refusal[] =
        "%s has 102 tokens, model \"words\" accepts at most 64: shorten it, or set %struncate to true";
    char text[101] = "", body[512], message[256];
    int32_t ids[64];
    for (int i = 0; i < 50; i++)
        strcat(text, "ab");
    for (size_t r = 0; r < sizeof routes / sizeof *routes; r++) {
        bool v2 = r == 4;
        snprintf(body, sizeof body, routes[r][1], text, "");
        snprintf(message, sizeof message, refusal,
                 v2       ? "input \"x\"[0]"
                 : r == 3 ? "input"
                          : "inputs",
                 v2 ? "the parameter " : "");
        expect_failure(routes[r][0], body, FAILURE_INVALID, message);
        for (int left = 0; left < 2; left++) {
            /* "ab" 50 times is one word of 100 letters. Each letter is a token: a, ##b, ##a, ##b and so on. */
            snprintf(body, sizeof body, routes[r][1], text,
                     v2     ? left ? ", \"parameters\": {\"truncate\": true, \"truncation_direction\": \"Left\"}"
                                   : ", \"parameters\": {\"truncate\": true}"
                     : left ? ", \"truncate\": true, \"truncation_direction\": \"left\""
                            : ", \"truncate\": true");
            for (int i = 0; i < 64; i++)
                ids[i] = i == 0 ? 2 : i == 63 ? 3 : i % 2 == 0 ? 373 : i == 1 && !left ? 43 : 363;
            expect_ids(routes[r][0], body, 64, ids);
        }
    }
    struct text_codec *codec = native_models[7].codec;
    native_models[7].codec = NULL;
    expect_failure("/embed", "{\"model\": \"words\", \"inputs\": \"ab\"}", FAILURE_INVALID,
                   "inputs is a text, but model \"words\" has no tokenizer: send lists of ids");
    expect_failure("/v2/models/words/infer",
                   "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"BYTES\", \"shape\": [1], \"data\": [\"ab\"]}]}",
                   FAILURE_INVALID,
                   "input \"x\" has datatype BYTES, but model \"words\" has no tokenizer: INT64 or INT32 was expected");
    native_models[7].codec = codec;
}

/* With targets "next", the target of a byte is the id of the next byte. Only rows with a target are computed, but at
 * least one row of each text. */
static void targets_of_a_text_are_its_own_ids(void **state)
{
    (void)state;
    struct request request;
    const char *body = "{\"inputs\": [\"abc\", \"d\"], \"targets\": \"next\"}";
    fake_reset();
    assert_int_equal(native_call("/logits", body, strlen(body), &request), 0);
    const struct engine_item *items = request.job.items;
    assert_int_equal(items[0].n_rows, 2);
    assert_memory_equal(items[0].targets, ((const int32_t[]){'b' + 3, 'c' + 3}), 2 * sizeof(int32_t));
    assert_memory_equal(items[0].rows, ((const int32_t[]){0, 1}), 2 * sizeof(int32_t));
    assert_int_equal(items[1].n_rows, 1);
    assert_int_equal(items[1].targets[0], -1);
    assert_null(items[0].output);
    request_close(&request);
    json_t *list = expect_answer("/logits", body), *logprobs = json_object_get(json_array_get(list, 0), "logprobs");
    double most = -INFINITY, sum = 0;
    for (int64_t id = 0; id < 259; id++)
        most = fmax(most, (double)fake_output('a' + 3, 0, id));
    for (int64_t id = 0; id < 259; id++)
        sum += exp((double)fake_output('a' + 3, 0, id) - most);
    assert_true(fabs(json_number_value(json_array_get(logprobs, 0)) - (double)fake_output('a' + 3, 0, 'b' + 3) + most +
                     log(sum)) < 1e-5);
    assert_true(json_is_null(json_array_get(logprobs, 2)));
    json_decref(list);
    expect_failure("/logits", "{\"inputs\": \"abc\", \"targets\": [1, 2]}", FAILURE_INVALID,
                   "targets has 2 ids, but inputs has 3 tokens: one id for each token was expected, or -100 or null "
                   "for tokens without a target");
}

static void repeated_positions_have_the_same_row(void **state)
{
    (void)state;
    json_t *list = expect_answer("/logits", "{\"inputs\": \"abc\", \"positions\": [2,2,0,2,2]}");
    json_t *rows = json_object_get(json_array_get(list, 0), "logits");
    assert_int_equal(json_array_size(rows), 5);
    for (size_t i = 0; i < 5; i++)
        assert_true(value_at(rows, i, 7) == fake_output(i == 2 ? 'a' + 3 : 'c' + 3, i == 2 ? 0 : 2, 7));
    json_decref(list);
    expect_failure("/logits", "{\"inputs\": \"abc\", \"positions\": [0,0,0,0,3]}", FAILURE_INVALID,
                   "positions[4] is 3, but inputs has 3 tokens");
}

static void refusals_name_the_input(void **state)
{
    (void)state;
    expect_failure("/embed", "{\"inputs\": [[1], [2], [3], [4, 5, 260]]}", FAILURE_INVALID,
                   "inputs[3][2] is 260; ids of model \"bytes\" are below 259");
    expect_failure("/embed", "{\"inputs\": [\"a\"], \"model\": \"none\"}", FAILURE_NO_MODEL,
                   "there is no model \"none\" here, only \"bytes\", \"ids\", \"rows\", \"tensors\", "
                   "\"classes\", \"score\", \"pictures\", \"words\", \"pair\", \"writer\"");
    native_settings.strict = true;
    expect_failure("/embed", "{\"inputs\": [1], \"normalise\": true}", FAILURE_INVALID,
                   "unknown key \"normalise\"; the known ones are inputs, embeddings, model, truncate, "
                   "truncation_direction, add_special_tokens, prompt_name, input_type, truncate_prompt_tokens, "
                   "encoding_format, normalize, pooling, dimensions, x");
    native_settings.strict = false;
    expect_failure("/embed", "{\n\"inputs\": tru}", FAILURE_MALFORMED,
                   "the body is not JSON: line 2 column 13: invalid token near 'tru'");
}

/* The message must say which limit is exceeded, the limit of the model or that of the server. The server's limit
 * follows from its memory. */
static void a_length_error_names_the_limit(void **state)
{
    (void)state;
    enum { LENGTH = FAKE_MAX_LENGTH + 1 };
    json_t *ids = json_array(), *row = json_array(), *rows = json_array();
    char expected[256];
    for (int i = 0; i < FAKE_COLUMNS; i++)
        json_array_append_new(row, json_real(0.5));
    for (int i = 0; i < LENGTH; i++) {
        json_array_append_new(ids, json_integer(1));
        json_array_append(rows, row);
    }
    for (int i = 0; i < 2; i++) {
        json_t *request =
            json_pack("{s:s, s:O}", "model", i ? "rows" : "ids", i ? "embeddings" : "inputs", i ? rows : ids);
        char *body = json_dumps(request, JSON_COMPACT);

        snprintf(
            expected, sizeof expected,
            i ? "embeddings has %d tokens, this server accepts at most %d for model \"rows\" (--max-batch-tokens): "
                "shorten it, or set truncate to true"
              : "inputs has %d tokens, model \"ids\" accepts at most %d: shorten it, or set truncate to true",
            LENGTH, FAKE_MAX_LENGTH);
        expect_failure("/embed", body, FAILURE_INVALID, expected);
        json_decref(request);
        free(body);
    }
    json_decref(ids);
    json_decref(row);
    json_decref(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_their_input),
        cmocka_unit_test(vectors_are_cut_then_normalised),
        cmocka_unit_test(the_best_tokens_have_their_texts),
        cmocka_unit_test(texts_may_contain_nul),
        cmocka_unit_test(texts_have_the_ids_of_their_tokenizer),
        cmocka_unit_test(a_text_too_long_is_refused_or_cut),
        cmocka_unit_test(targets_of_a_text_are_its_own_ids),
        cmocka_unit_test(repeated_positions_have_the_same_row),
        cmocka_unit_test(refusals_name_the_input),
        cmocka_unit_test(a_length_error_names_the_limit),
    };
    return cmocka_run_group_tests(tests, native_setup, native_teardown);
}
