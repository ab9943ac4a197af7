/* /embed, /embed_all, /tokenize and /decode with the model "builtin", whose tokens are bytes. */
#include "tests/http/checkpoint.h"
#include "tests/http/the_daemon.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double norm(const json_t *vector)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(vector); i++)
        sum += json_number_at(vector, i) * json_number_at(vector, i);
    return sqrt(sum);
}

static int letter_value(char letter)
{
    const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    return (int)(strchr(letters, letter) - letters);
}

/* Returns the i-th little-endian float of a base64 string. */
static float base64_float(const char *text, size_t index)
{
    unsigned char bytes[4];
    uint32_t bits = 0;
    float value;
    for (size_t i = 0; i < 4; i++) {
        size_t bit = (index * 4 + i) * 8;
        int pair = letter_value(text[bit / 6]) << 6 | letter_value(text[bit / 6 + 1]);

        bytes[i] = (unsigned char)(pair >> (4 - bit % 6));
        bits |= (uint32_t)bytes[i] << 8 * i;
    }
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void one_text_or_id_list_is_a_list_of_one(void **state)
{
    (void)state;
    json_t *text = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"Hi!\"}");
    json_t *list = daemon_post_json(the_daemon, "/embed", "{\"inputs\": [\"Hi!\"]}");
    json_t *ids = daemon_post_json(the_daemon, "/embed", "{\"inputs\": [75, 108, 36]}");
    json_t *mixed =
        daemon_post_json(the_daemon, "/", "{\"inputs\": [\"Hi!\", [75, 108, 36]], \"options\": {\"a\": 1}}");
    assert_int_equal(json_array_size(text), 1);
    assert_true(json_equal(text, list));
    assert_true(json_equal(text, ids));
    assert_int_equal(json_array_size(mixed), 2);
    assert_true(json_equal(json_array_get(mixed, 0), json_array_get(text, 0)));
    assert_true(json_equal(json_array_get(mixed, 1), json_array_get(text, 0)));
    json_decref(text);
    json_decref(list);
    json_decref(ids);
    json_decref(mixed);
}

static void normalize_of_a_request_overrides_that_of_the_model(void **state)
{
    (void)state;
    json_t *unit = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"abc\"}");
    json_t *also = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"abc\", \"normalize\": true}");
    json_t *plain = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"abc\", \"normalize\": false}");
    assert_true(fabs(norm(json_array_get(unit, 0)) - 1) < 1e-5);
    assert_true(json_equal(unit, also));
    assert_true(fabs(norm(json_array_get(plain, 0)) - 1) > 1e-3);
    json_decref(unit);
    json_decref(also);
    json_decref(plain);
}

static void vectors_are_cut_to_dimensions_before_normalising(void **state)
{
    (void)state;
    json_t *whole = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"abc\", \"normalize\": false}");
    json_t *cut = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"abc\", \"dimensions\": 8}");
    double ratio = json_number_at(json_array_get(whole, 0), 0) / json_number_at(json_array_get(cut, 0), 0);
    assert_int_equal(json_array_size(json_array_get(cut, 0)), 8);
    assert_true(fabs(norm(json_array_get(cut, 0)) - 1) < 1e-5);
    for (size_t i = 0; i < 8; i++) {
        double expected = json_number_at(json_array_get(whole, 0), i) / ratio;

        assert_true(fabs(json_number_at(json_array_get(cut, 0), i) - expected) < 1e-5);
    }
    json_decref(whole);
    json_decref(cut);
}

static void poolings_agree_with_embed_all(void **state)
{
    (void)state;
    static const char *const names[] = {"cls", "LAST", "Mean", "max"};
    json_t *all = daemon_post_json(the_daemon, "/embed_all", "{\"inputs\": \"pool me\"}");
    json_t *rows = json_array_get(all, 0);
    size_t n = json_array_size(rows);
    assert_int_equal(json_array_size(all), 1);
    assert_int_equal(n, 7);
    for (size_t p = 0; p < LENGTH(names); p++) {
        char body[128];
        json_t *pooled;

        snprintf(body, sizeof body, "{\"inputs\": \"pool me\", \"normalize\": false, \"pooling\": \"%s\"}", names[p]);
        pooled = daemon_post_json(the_daemon, "/embed", body);
        for (size_t column = 0; column < 10; column++) {
            double sum = 0, greatest = -1e30, expected;

            for (size_t row = 0; row < n; row++) {
                double value = json_number_at(json_array_get(rows, row), column);

                sum += value;
                greatest = value > greatest ? value : greatest;
            }
            expected = p == 0   ? json_number_at(json_array_get(rows, 0), column)
                       : p == 1 ? json_number_at(json_array_get(rows, n - 1), column)
                       : p == 2 ? sum / (double)n
                                : greatest;
            assert_true(fabs(json_number_at(json_array_get(pooled, 0), column) - expected) < 1e-5);
        }
        json_decref(pooled);
    }
    json_decref(all);
}

static void base64_contains_the_same_floats(void **state)
{
    (void)state;
    json_t *floats = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"abc\", \"encoding_format\": \"float\"}");
    json_t *coded = daemon_post_json(the_daemon, "/embed", "{\"inputs\": \"abc\", \"encoding_format\": \"base64\"}");
    json_t *rows = daemon_post_json(the_daemon, "/embed_all", "{\"inputs\": \"abc\", \"encoding_format\": \"base64\"}");
    size_t n = json_array_size(json_array_get(floats, 0));
    const char *text = json_string_value(json_array_get(coded, 0));
    assert_non_null(text);
    assert_int_equal(strlen(text), (n * 4 + 2) / 3 * 4);
    for (size_t i = 0; i < n; i++)
        assert_true(base64_float(text, i) == (float)json_number_at(json_array_get(floats, 0), i));
    assert_int_equal(json_array_size(json_array_get(rows, 0)), 3);
    assert_true(json_is_string(json_array_get(json_array_get(rows, 0), 2)));
    json_decref(floats);
    json_decref(coded);
    json_decref(rows);
}

/* Returns a folder with a model. Its tokenizer is {"type": "byte", "offset": 0}, as is usual for models of 256 ids. */
static char *folder_without_offset(void)
{
    struct checkpoint checkpoint = checkpoint_read("../models/bytes");
    json_t *config = json_loads(checkpoint.config, 0, NULL);
    char *parent = folder_make(), path[512];
    json_object_set_new(config, "tokenizer", json_pack("{s:s,s:i}", "type", "byte", "offset", 0));
    free(checkpoint.config);
    checkpoint.config = json_dumps(config, 0);
    json_decref(config);
    snprintf(path, sizeof path, "%s/plain", parent);
    checkpoint_write(&checkpoint, path, 0);
    checkpoint_free(&checkpoint);
    return parent;
}

static void expect_json(const struct daemon *daemon, const char *path, const char *body, const char *expected)
{
    json_t *found = daemon_post_json(daemon, path, body), *wanted = json_loads(expected, 0, NULL);
    assert_non_null(wanted);
    assert_true(json_equal(found, wanted));
    json_decref(found);
    json_decref(wanted);
}

static void without_an_offset_ids_are_bytes(void **state)
{
    (void)state;
    char *folder = folder_without_offset();
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", folder));
    json_t *text = daemon_post_json(daemon, "/embed", "{\"inputs\": \"[MASK]\\u00e9\"}");
    json_t *ids = daemon_post_json(daemon, "/embed", "{\"inputs\": [91, 77, 65, 83, 75, 93, 195, 169]}");
    struct answer info = daemon_get(daemon, "/info");
    assert_true(json_equal(text, ids));
    expect_json(daemon, "/decode", "{\"ids\": [97, 2, 255]}", "[\"a\\u0002\\ufffd\"]");
    expect_json(daemon, "/tokenize", "{\"inputs\": \"a\"}",
                "[[{\"id\": 97, \"text\": \"a\", \"special\": false, \"start\": 0, \"stop\": 1}]]");
    expect_failure(daemon, "/decode", "{\"ids\": [256]}", 422, "Validation", "below 256");
    assert_non_null(strstr(info.body, "\"tokenizer_offset\":0"));
    answer_free(&info);
    json_decref(text);
    json_decref(ids);
    daemon_stop(daemon);
    folder_remove(folder);
    free(folder);
}

static void long_inputs_are_cut_on_request(void **state)
{
    (void)state;
    enum { LIMIT = 1024 };
    char text[LIMIT + 3], body[2 * LIMIT];
    json_t *cut, *start_only, *end_only, *left;
    memset(text, 'a', LIMIT);
    strcpy(text + LIMIT, "bc");
    snprintf(body, sizeof body, "{\"inputs\": [\"short\", \"%s\"]}", text);
    expect_failure(the_daemon, "/embed", body, 422, "Validation", "inputs[1] has 1026 tokens");
    expect_failure(the_daemon, "/embed", body, 422, "Validation", "1024");
    snprintf(body, sizeof body, "{\"inputs\": \"%s\", \"truncate\": true}", text);
    cut = daemon_post_json(the_daemon, "/embed", body);
    snprintf(body, sizeof body, "{\"inputs\": \"%.*s\"}", LIMIT, text);
    start_only = daemon_post_json(the_daemon, "/embed", body);
    snprintf(body, sizeof body, "{\"inputs\": \"%s\", \"truncate\": true, \"truncation_direction\": \"Left\"}", text);
    left = daemon_post_json(the_daemon, "/embed", body);
    snprintf(body, sizeof body, "{\"inputs\": \"%s\"}", text + 2);
    end_only = daemon_post_json(the_daemon, "/embed", body);
    assert_true(json_equal(cut, start_only));
    assert_true(json_equal(left, end_only));
    assert_false(json_equal(cut, left));
    json_decref(cut);
    json_decref(start_only);
    json_decref(end_only);
    json_decref(left);
}

/* LinformerSelfAttention accepts any number of queries. But without `context`, the rows are also the keys, whose number
 * is limited. */
static void rows_without_context_are_limited_like_attention_keys(void **state)
{
    (void)state;
    enum { LIMIT = 24, ROWS = LIMIT + 2, DIM = 32 };
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "tests/reference/linformer_attention"));
    json_t *rows = json_array(), *body = json_pack("{s:o,s:b}", "embeddings", rows, "truncate", 1);
    struct answer info = daemon_get(daemon, "/info");
    json_t *list;
    char *text;
    for (int i = 0; i < ROWS * DIM; i++) {
        if (i % DIM == 0)
            json_array_append_new(rows, json_array());
        json_array_append_new(json_array_get(rows, (size_t)(i / DIM)), json_real(i % 7));
    }
    assert_int_equal(json_integer_value(json_object_get(info.json, "max_input_length")), LIMIT);
    answer_free(&info);
    text = json_dumps(body, 0);
    list = daemon_post_json(daemon, "/embed_all", text);
    assert_int_equal(json_array_size(json_array_get(list, 0)), LIMIT);
    free(text);
    json_decref(list);
    json_object_del(body, "truncate");
    text = json_dumps(body, 0);
    expect_failure(daemon, "/embed_all", text, 422, "Validation",
                   "has 26 tokens, model \"linformer_attention\" accepts at");
    free(text);
    json_decref(body);
    daemon_stop(daemon);
}

static void headers_report_times_and_tokens(void **state)
{
    (void)state;
    static const char *const names[] = {"x-total-time", "x-queue-time", "x-inference-time", "x-compute-tokens"};
    struct answer answer = daemon_post(the_daemon, "/embed", "{\"inputs\": [\"four\", \"fives\"]}");
    for (size_t i = 0; i < LENGTH(names); i++) {
        char *value = answer_header(&answer, names[i]);

        assert_non_null(value);
        assert_int_equal(strspn(value, "0123456789"), strlen(value));
        if (i == 3)
            assert_string_equal(value, "9");
        free(value);
    }
    answer_free(&answer);
}

/* Large bodies and answers are processed by other code than small ones. The results must agree within 1e-5. */
static void large_requests_have_the_results_of_small_ones(void **state)
{
    (void)state;
    enum { MAX_TEXTS = 1000, ROW = 100, STEP = 33 };
    const int count = getenv("LINFORMERD_DEVICE") ? STEP + 1 : MAX_TEXTS; /* the CUDA shim is slow */
    json_t *one = daemon_post_json(the_daemon, "/embed",
                                   "{\"inputs\": \"0123456789012345678901234567890123456789"
                                   "012345678901234567890123456789012345678901234567890123456789\"}");
    char *body = malloc(MAX_TEXTS * (ROW + 4) + 64), *at = body;
    json_t *many;
    at += sprintf(at, "{\"inputs\": [");
    for (int i = 0; i < count; i++) {
        at += sprintf(at, "%s\"", i ? "," : "");
        for (int j = 0; j < ROW; j++)
            *at++ = (char)('0' + j % 10);
        *at++ = '"';
    }
    strcpy(at, "]}");
    many = daemon_post_json(the_daemon, "/embed", body);
    assert_int_equal(json_array_size(many), count);
    for (size_t row = 0; row < (size_t)count; row += STEP) {
        for (size_t i = 0; i < 192; i++) {
            double expected = json_number_at(json_array_get(one, 0), i);

            assert_true(fabs(json_number_at(json_array_get(many, row), i) - expected) < 1e-5);
        }
    }
    json_decref(one);
    json_decref(many);
    free(body);
}

static void tokenize_returns_ids_and_places(void **state)
{
    (void)state;
    json_t *lists = daemon_post_json(the_daemon, "/tokenize",
                                     "{\"inputs\": [\"a\xC3\xA9[MASK]z\", \"\"], \"add_special_tokens\": true}");
    json_t *tokens = json_array_get(lists, 0), *first = json_array_get(tokens, 0), *mask = json_array_get(tokens, 3),
           *last = json_array_get(tokens, 4);
    assert_int_equal(json_array_size(lists), 2);
    assert_int_equal(json_array_size(tokens), 5);
    assert_int_equal(json_array_size(json_array_get(lists, 1)), 0);
    assert_int_equal(json_integer_value(json_object_get(first, "id")), 'a' + 3);
    assert_string_equal(json_string_value(json_object_get(first, "text")), "a");
    assert_true(json_is_false(json_object_get(first, "special")));
    assert_int_equal(json_integer_value(json_object_get(json_array_get(tokens, 1), "id")), 0xC3 + 3);
    assert_string_equal(json_string_value(json_object_get(json_array_get(tokens, 1), "text")), "\xC3\xA9");
    assert_int_equal(json_integer_value(json_object_get(json_array_get(tokens, 2), "start")), 1);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(tokens, 2), "stop")), 2);
    assert_int_equal(json_integer_value(json_object_get(mask, "id")), 2);
    assert_true(json_is_true(json_object_get(mask, "special")));
    assert_true(json_is_null(json_object_get(mask, "start")));
    assert_int_equal(json_integer_value(json_object_get(last, "start")), 8);
    assert_int_equal(json_integer_value(json_object_get(last, "stop")), 9);
    json_decref(lists);
}

static void decode_undoes_tokenize(void **state)
{
    (void)state;
    json_t *one = daemon_post_json(the_daemon, "/decode", "{\"ids\": [100, 198, 172, 2, 0, 125]}");
    json_t *many =
        daemon_post_json(the_daemon, "/decode", "{\"ids\": [[100, 2, 1], [], [198]], \"skip_special_tokens\": false}");
    assert_int_equal(json_array_size(one), 1);
    assert_string_equal(json_string_value(json_array_get(one, 0)), "a\xC3\xA9z");
    assert_int_equal(json_array_size(many), 3);
    assert_string_equal(json_string_value(json_array_get(many, 0)), "a[MASK]");
    assert_string_equal(json_string_value(json_array_get(many, 1)), "");
    assert_string_equal(json_string_value(json_array_get(many, 2)), "\xEF\xBF\xBD");
    json_decref(one);
    json_decref(many);
}

/* /decode may return a text that contains NUL, and /embed accepts this text. */
static void a_text_may_contain_nul(void **state)
{
    (void)state;
    json_t *text = daemon_post_json(the_daemon, "/decode", "{\"ids\": [3]}");
    json_t *vector = daemon_post_json(the_daemon, "/embed", "{\"inputs\": [\"\\u0000\"]}");
    json_t *same = daemon_post_json(the_daemon, "/embed", "{\"inputs\": [[3]]}");
    assert_int_equal(json_string_length(json_array_get(text, 0)), 1);
    assert_true(json_equal(vector, same));
    json_decref(text);
    json_decref(vector);
    json_decref(same);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_text_or_id_list_is_a_list_of_one),
        cmocka_unit_test(normalize_of_a_request_overrides_that_of_the_model),
        cmocka_unit_test(vectors_are_cut_to_dimensions_before_normalising),
        cmocka_unit_test(poolings_agree_with_embed_all),
        cmocka_unit_test(base64_contains_the_same_floats),
        cmocka_unit_test(without_an_offset_ids_are_bytes),
        cmocka_unit_test(long_inputs_are_cut_on_request),
        cmocka_unit_test(rows_without_context_are_limited_like_attention_keys),
        cmocka_unit_test(headers_report_times_and_tokens),
        cmocka_unit_test(large_requests_have_the_results_of_small_ones),
        cmocka_unit_test(tokenize_returns_ids_and_places),
        cmocka_unit_test(decode_undoes_tokenize),
        cmocka_unit_test(a_text_may_contain_nul),
    };
    return cmocka_run_group_tests(tests, the_daemon_start, the_daemon_stop);
}
