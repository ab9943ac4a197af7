/* The native routes with the fake engine. The test can compute the results of this engine. */
#include "server/dialects/native.h"
#include "server/dialects/results.h"
#include "tests/http/native_call.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <malloc.h>
#include <math.h>
#include <stdio.h>

static json_t *expect_answer(const char *path, const char *body)
{
    struct request request;
    fake_reset();
    if (native_call(path, body, strlen(body), &request))
        print_error("%s %s: %s\n", path, body, request.failure.error.message);
    assert_int_equal(request.failure.kind, FAILURE_NONE);
    json_t *json = json_loadb(request.answer.data, request.answer.length, JSON_ALLOW_NUL, NULL);
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

static void the_best_have_their_text(void **state)
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

/* Every result is a float whose text is as long as possible. */
static int run_with_long_floats(struct model *model, int lane, const struct engine_item *items, int64_t n_items,
                                struct error *error)
{
    const float longest = -1.2345679e-5f;
    if (model_run(model, lane, items, n_items, error))
        return -1;
    for (int64_t i = 0; i < n_items; i++) {
        const struct engine_item *item = &items[i];
        const struct model_info *info = model_info(model);

        for (int64_t n = 0; item->pooled && n < info->hidden_columns; n++)
            item->pooled[n] = longest;
        for (int64_t n = 0; item->hidden && n < item->inputs[0].length * info->hidden_columns; n++)
            item->hidden[n] = longest;
        for (int64_t n = 0; item->output && n < item->n_rows * info->output_columns; n++)
            item->output[n] = longest;
        for (int64_t n = 0; item->top_values && n < item->n_rows * item->top_k; n++)
            item->top_values[n] = longest;
        for (int64_t n = 0; item->targets && n < item->n_rows; n++)
            item->log_probabilities[n] = longest;
    }
    return 0;
}

/* Bodies that consist of brackets, commas, keys or texts. The counted memory must be at least the memory that is
 * taken. */
static void counted_memory_is_enough(void **state)
{
    (void)state;
    static const char *const repeated[] = {"{}",           "[]",      "1", "0.5", "\"\"", "\"abc\\n\\\"\"",
                                           "{\"a\":[{}]}", "[[[[]]]]"};
    enum { COUNT = 20000 };
    for (size_t i = 0; i < sizeof repeated / sizeof repeated[0]; i++) {
        struct writer body = {0};
        struct failure failure;
        struct mallinfo2 before = mallinfo2();

        writer_text(&body, "{\"inputs\":[");
        for (int n = 0; n < COUNT; n++)
            writer_format(&body, "%s%s", n ? "," : "", repeated[i]);
        writer_text(&body, "]}");
        before = mallinfo2();
        json_t *json = json_body_parse(body.data, body.length, &failure);
        struct mallinfo2 after = mallinfo2();
        assert_non_null(json);
        assert_true(json_body_memory(body.data, body.length) >=
                    (int64_t)(after.uordblks + after.hblkhd - before.uordblks - before.hblkhd));
        json_decref(json);
        writer_free(&body);
    }
}

static void json_has_a_bound(void **state)
{
    (void)state;
    struct budget *budget = &native_service.results;
    int64_t limit = budget->limit;
    struct request request;
    budget->limit = 2000;
    expect_failure("/embed", "{\"inputs\":[{},{},{},{},{},{},{},{},{},{}]}", FAILURE_TOO_LARGE,
                   "the body's JSON would take 4056 bytes of memory, this server gives a request 2000: send less at "
                   "once");
    budget->used = 1990;
    expect_failure("/embed", "{\"inputs\":[1]}", FAILURE_OVERLOADED,
                   "other requests take the memory that this one needs; try again later");
    assert_int_equal(budget->used, 1990);
    budget->used = 0;
    budget->limit = limit;
    assert_int_equal(native_call("/embed", "{\"inputs\":\"a\"}", 14, &request), 0);
    request_read_done(&request);
    int64_t held = budget->used;
    request_answered(&request);
    assert_int_equal(budget->used, request.answer.length);
    assert_true(held > budget->used);
    request_close(&request);
    assert_int_equal(budget->used, 0);
}

/* Small requests have the last part of the budget for themselves. */
static void large_requests_leave_room_for_small_ones(void **state)
{
    (void)state;
    struct budget budget = {.limit = 1000, .reserve = 200, .small = 50};
    struct share large = {&budget, 0}, small = {&budget, 0};
    assert_false(share_take(&large, 801));
    assert_true(share_take(&large, 800));
    assert_true(share_take(&small, 50));
    assert_false(share_take(&small, 1));
    assert_int_equal(share_end(&large), 800);
    assert_int_equal(share_end(&large), 0);
    assert_true(share_take(&small, 700));
    share_end(&small);
    assert_int_equal(budget.used, 0);
}

static void texts_may_hold_nul(void **state)
{
    (void)state;
    json_t *tokens = expect_answer("/tokenize", "{\"inputs\": \"a\\u0000b\"}");
    assert_int_equal(json_array_size(json_array_get(tokens, 0)), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(json_array_get(tokens, 0), 1), "id")), 3);
    json_decref(tokens);
    expect_failure("/embed", "{\"inputs\": \"a\", \"pooling\": \"mean\\u0000\"}", FAILURE_INVALID,
                   "pooling holds a NUL character");
    expect_failure("/embed", "{\"inputs\": \"a\", \"model\": \"bytes\\u0000\"}", FAILURE_INVALID,
                   "model holds a NUL character");
    expect_failure("/logits", "{\"inputs\": \"a\", \"positions\": \"all\\u0000\"}", FAILURE_INVALID,
                   "positions holds a NUL character");
    expect_failure("/embed", "{\"inp\\u0000uts\": \"a\"}", FAILURE_MALFORMED,
                   "the body is not JSON: line 1 column 15: a NUL character in a key is not taken");
}

/* A text of one mebibyte is truncated to 64 ids. The tokenizer must make no more ids than these. */
static void truncated_texts_cost_what_is_kept(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    char *body = malloc(LENGTH + 64);
    int64_t limit = native_service.results.limit, begun, end;
    struct request request;
    begun = sprintf(body, "{\"truncate\": true, \"inputs\": \"");
    memset(body + begun, 'x', LENGTH);
    end = begun + LENGTH;
    end += sprintf(body + end, "\"}");
    assert_int_equal(native_call("/embed", body, (size_t)end, &request), 0);
    request_read_done(&request);
    assert_in_range(native_service.results.used, FAKE_MAX_LENGTH * sizeof(int32_t), 4096);
    request_close(&request);
    native_service.results.limit = limit;
    free(body);
}

/* Expects that both requests have the same inputs of items, or the same failure. */
static void expect_alike(const struct request *a, const struct request *b)
{
    size_t row_bytes = a->info && a->info->vocabulary ? sizeof(int32_t) : FAKE_COLUMNS * sizeof(float);
    assert_int_equal(a->failure.kind, b->failure.kind);
    if (a->failure.kind != FAILURE_NONE) {
        assert_string_equal(a->failure.error.message, b->failure.error.message);
        return;
    }
    assert_int_equal(a->job.n_items, b->job.n_items);
    for (int64_t i = 0; i < a->job.n_items; i++) {
        assert_int_equal(a->job.items[i].inputs[0].length, b->job.items[i].inputs[0].length);
        assert_memory_equal(a->job.items[i].inputs[0].data, b->job.items[i].inputs[0].data,
                            (size_t)a->job.items[i].inputs[0].length * row_bytes);
    }
    assert_int_equal(a->answer.length, b->answer.length);
    assert_memory_equal(a->answer.data, b->answer.data, a->answer.length);
}

#define V2(shape, datatype, data)                                                                           \
    "{\"id\": \"7\", \"inputs\": [{\"name\": \"x\", \"shape\": " shape ", \"datatype\": \"" datatype "\", " \
    "\"parameters\": {}, D: " data "}], \"outputs\": [{\"name\": \"output\"}]}"

/* Lists of numbers are read with and without jansson, with the same result. A key with an escape is only read by
 * jansson. */
static void lists_are_read_alike(void **state)
{
    (void)state;
    static const struct {
        /* I: inputs, E: embeddings, D: data, L: a list too long for the model, M: the same list with a fault at its
         * end. */
        const char *path, *body;
    } cases[] = {
        {"/embed", "{\"model\": \"ids\", I: [[1, 2, 3], [4]]}"},
        {"/embed", "{\"model\": \"ids\", I: [1, 2, 3]}"},
        {"/embed", " {\"model\":\"ids\",\"normalize\":false , I :\n[ [1 ,\t2],[ 999 ] ] , \"dimensions\": 2} "},
        {"/embed_all", "{\"model\": \"ids\", I: [[1, -0], [4]]}"},
        {"/embed_all", "{\"model\": \"ids\", I: [L, [1]], \"truncate\": true}"},
        {"/embed_all", "{\"model\": \"ids\", I: [[1], L], \"truncate\": true, \"truncation_direction\": \"left\"}"},
        {"/embed_all", "{\"model\": \"ids\", I: [[1], L]}"},
        {"/embed", "{\"model\": \"ids\", I: [[1, 2], [3, 1000]]}"},
        {"/embed", "{\"model\": \"ids\", I: [[1, 2], [3, -1]]}"},
        {"/embed", "{\"model\": \"ids\", I: [1, 2.5]}"},
        {"/embed", "{\"model\": \"ids\", I: [[1], []]}"},
        {"/embed", "{\"model\": \"ids\", I: [[[1]]]}"},
        {"/embed", "{\"model\": \"ids\", I: [[1], 2]}"},
        {"/embed", "{\"model\": \"ids\", I: [1, [2]]}"},
        {"/embed", "{\"model\": \"ids\", I: []}"},
        {"/embed", "{\"model\": \"ids\", I: [[1],[1],[1],[1],[1],[1],[1],[1],[1]]}"},
        {"/embed", "{\"model\": \"ids\", I: [[[1]],[1],[1],[1],[1],[1],[1],[1],[1]]}"},
        {"/embed", "{\"model\": \"ids\", I: [\"a,\\\"\",[1],[1],[1],[1],[1],[1],[1],{}]}"},
        {"/embed", "{\"model\": \"ids\", I: [1,1,1,1,1,1,1,1,{}]}"},
        {"/embed", "{\"model\": \"ids\", I: [[1], L, [1000]]}"},
        {"/embed", "{\"model\": \"ids\", I: [[1], [1000], L]}"},
        {"/embed", "{\"model\": \"ids\", I: [[1], [5, 1e1]]}"},
        {"/embed", "{\"model\": \"ids\", I: [[1], [5, -12.5, -3]]}"},
        {"/embed", "{\"model\": \"ids\", I: [[1], [5, -123456789012]]}"},
        {"/embed_all", "{\"model\": \"ids\", I: [[1], M], \"truncate\": true}"},
        {"/embed_all", "{\"model\": \"ids\", I: [[1], M], \"truncate\": true, \"truncation_direction\": \"left\"}"},
        {"/embed", "{\"model\": \"ids\", I: [1], \"normalise\": true}"},
        {"/embed", "{\"model\": \"ids\", I: [1], E: [[1, 2, 3, 4]]}"},
        {"/embed", "{\"model\": \"ids\", E: [[1, 2, 3, 4]]}"},
        {"/embed", "{\"model\": \"nobody\", I: [1]}"},
        {"/embed", "{I: [1], \"model\": \"rows\"}"},
        {"/embed", "{\"model\": \"ids\", I: [[1, 2]], E: null}"},
        {"/embed", "{\"model\": \"ids\", I: [[0]]}"},
        {"/v1/embeddings", "{\"model\": \"ids\", E: [[5, 6]], \"input\": [[1, 2, 3]]}"},
        {"/v1/embeddings", "{\"model\": \"ids\", E: [[5, 6]], \"input\": [[0]]}"},
        {"/v1/embeddings", "{\"model\": \"ids\", E: [[5, 6]], \"inp\\u0075t\": [0]}"},
        {"/v1/embeddings", "{\"model\": \"bytes\", E: [[5, 6]], \"input\": [\"hello\"]}"},
        {"/logits", "{\"model\": \"ids\", I: [[1, 2, 3], [4, 5]], \"positions\": [1, 0]}"},
        {"/logits", "{\"model\": \"ids\", I: [[1, 2, 3], [4, 5]], \"positions\": [2]}"},
        {"/embed", "{\"model\": \"rows\", E: [[1, 2, 3, 4], [0.1, -2.5e-3, 1E2, -0.0]]}"},
        {"/embed", "{\"model\": \"rows\", E: [[[1, 2, 3, 4]], [[0.12345678806304932, 5, 6, 7], [1, 2, 3, 4]]]}"},
        {"/embed", "{\"model\": \"rows\", E: [[1, 2, 3, 4], [5, 6, 7]]}"},
        {"/embed", "{\"model\": \"rows\", E: [[1, 2, 3, 4], [5, 6, 7, 1e39]]}"},
        {"/embed", "{\"model\": \"rows\", E: [[[1, 2, 3, 4]], [[5, 6, 7, 8], [5, -1e39, 7, 8]]]}"},
        {"/embed", "{\"model\": \"rows\", E: [[[1, 2, 3, 4]], [[5, 6, 7, 8], [5, 6, 7, 8, 9], [1]]]}"},
        {"/embed", "{\"model\": \"rows\", E: [[[1]],[[1]],[[1]],[[1]],[[1]],[[1]],[[1]],[[1]],[[1]]]}"},
        {"/embed", "{\"model\": \"rows\", E: [[[[1]]],[[1]],[[1]],[[1]],[[1]],[[1]],[[1]],[[1]],[[1]]]}"},
        {"/embed", "{\"model\": \"rows\", E: [1, 2, 3, 4]}"},
        {"/v2/models/ids/infer", V2("[2, 2]", "INT64", "[[1, 2], [3, 4]]")},
        {"/v2/models/ids/infer", V2("[2, 2]", "INT32", "[1, 2, 3, 999]")},
        {"/v2/models/ids/infer", V2("[2, 2]", "INT64", "[1, 2, 3]")},
        {"/v2/models/ids/infer", V2("[2, 2]", "INT64", "[[1, 2], [3]]")},
        {"/v2/models/ids/infer", V2("[2, 2]", "INT64", "[[1], [2, 3, 4]]")},
        {"/v2/models/ids/infer", V2("[2, 2]", "INT64", "[[1, 2, 3], [4]]")},
        {"/v2/models/ids/infer", V2("[1, 2]", "INT64", "[1, 1000]")},
        {"/v2/models/ids/infer", V2("[1, 2]", "INT64", "[1, 2.0]")},
        {"/v2/models/ids/infer", V2("[1, 2]", "INT64", "[]")},
        {"/v2/models/ids/infer", V2("[1, 2]", "FP32", "[1, 2]")},
        {"/v2/models/ids/infer", V2("[4]", "INT64", "[1, 2, 3, 4]")},
        {"/v2/models/ids/infer", "{\"model_name\": [{\"data\": [5]}], \"inputs\": [{\"name\": \"x\", \"shape\": [1, "
                                 "1], \"datatype\": \"INT64\", "
                                 "D: [6]}]}"},
        {"/v2/models/ids/infer", "{\"model_name\": [{\"data\": [5]}], \"inputs\": [{\"name\": \"x\", \"shape\": [1, "
                                 "1], \"datatype\": \"INT64\", "
                                 "D: []}]}"},
        {"/v2/models/ids/infer", "{\"outputs\": [{\"name\": \"output\", D: [5]}], \"inputs\": [{\"name\": \"x\", "
                                 "\"shape\": [1, 1], \"datatype\": \"INT64\", D: [6]}]}"},
        {"/v2/models/ids/infer", "{\"id\": \"a\\/b\", \"inputs\": [{\"name\": \"x\", \"shape\": [1, 1], "
                                 "\"datatype\": \"INT64\", D: [0]}]}"},
        {"/v2/models/rows/infer", V2("[1, 2, 4]", "FP32", "[[[1, 2.5, 3e2, 4], [0.12345678806304932, 6, -7, 8]]]")},
        {"/v2/models/rows/infer", V2("[1, 2, 4]", "FP32", "[1, 2.5, 3e2, 4, 5, 6, -7, 8]")},
        {"/v2/models/rows/infer",
         V2("[2, 2, 4]", "FP32", "[[[1, 2, 3, 4]], [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]]]")},
    };
    char list[2048], text[8192];
    struct request requests[2];
    int at = sprintf(list, "[0");
    for (int i = 1; i <= FAKE_MAX_LENGTH; i++)
        at += sprintf(list + at, ", %d", i);
    strcat(list, "]");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int escaped = 0; escaped < 2; escaped++) {
            char *out = text;

            for (const char *in = cases[i].body; *in; in++) {
                if (*in == 'I' && (in[1] == ':' || in[1] == ' '))
                    out += sprintf(out, escaped ? "\"inp\\u0075ts\"" : "\"inputs\"");
                else if (*in == 'E' && in[1] == ':')
                    out += sprintf(out, escaped ? "\"embedd\\u0069ngs\"" : "\"embeddings\"");
                else if (*in == 'D' && in[1] == ':')
                    out += sprintf(out, escaped ? "\"d\\u0061ta\"" : "\"data\"");
                else if (*in == 'L')
                    out += sprintf(out, "%s", list);
                else if (*in == 'M')
                    out += sprintf(out, "%.*s, 1000]", (int)strlen(list) - 1, list);
                else
                    *out++ = *in;
            }
            *out = '\0';
            fake_reset();
            native_call(cases[i].path, text, strlen(text), &requests[escaped]);
        }
        print_message("%s\n", cases[i].body);
        expect_alike(&requests[0], &requests[1]);
        request_close(&requests[0]);
        request_close(&requests[1]);
    }
}

/* The body repeats `part` many times. It must be refused with the same message as a short body, with less memory than
 * jansson would take. */
static void expect_refused_cheaply(const char *path, const char *begin, const char *part, const char *end,
                                   const char *message)
{
    enum { COUNT = 100000 };
    int64_t limit = native_service.results.limit;
    struct writer body = {0};
    writer_text(&body, begin);
    for (int i = 0; i < COUNT; i++)
        writer_format(&body, "%s%s", i ? "," : "", part);
    writer_text(&body, end);
    writer_bytes(&body, "", 1);
    native_service.results.limit =
        (int64_t)body.length * 3; /* a number takes at most 4 bytes, and a comma follows it */
    expect_failure(path, body.data, FAILURE_INVALID, message);
    assert_int_equal(native_service.results.used, 0);
    native_service.results.limit = limit;
    writer_free(&body);
}

static void long_lists_are_refused_without_an_object_for_each_number(void **state)
{
    (void)state;
    static const char too_many[] = "the request has 100000 inputs, this server takes at most 8 in one";
    expect_refused_cheaply("/embed", "{\"model\": \"ids\", \"inputs\": [", "[1]", "]}", too_many);
    expect_refused_cheaply("/embed", "{\"inputs\": [", "[[1]]", "]}", too_many);
    expect_refused_cheaply("/embed", "{\"inputs\": [", "[]", "]}", too_many);
    expect_refused_cheaply("/embed", "{\"inputs\": [", "\"a\"", "], \"truncate\": true}", too_many);
    expect_refused_cheaply("/embed", "{\"model\": \"rows\", \"embeddings\": [", "[[1]]", "]}", too_many);
    expect_refused_cheaply("/embed", "{\"model\": \"ids\", \"inputs\": [", "1", "]}",
                           "inputs has 100000 tokens, model \"ids\" takes at most 64: shorten it, or set truncate to "
                           "true");
    expect_refused_cheaply("/embed", "{\"model\": \"ids\", \"truncate\": true, \"inputs\": [[2],[", "5000", "]]}",
                           "inputs[1][0] is 5000; ids of model \"ids\" are below 1000");
    expect_refused_cheaply(
        "/embed", "{\"model\": \"ids\", \"inputs\": [[2],[3.5,", "5", "]]}",
        "inputs[1] has 100001 tokens, model \"ids\" takes at most 64: shorten it, or set truncate to "
        "true");
    expect_refused_cheaply("/embed", "{\"model\": \"rows\", \"embeddings\": [", "[1,2,3]", "]}",
                           "embeddings[0] has 3 values, rows of model \"rows\" have 4");
    expect_refused_cheaply("/v1/embeddings", "{\"model\": \"ids\", \"input\": [", "[1]", "]}", too_many);
    expect_refused_cheaply(
        "/v2/models/ids/infer",
        "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"INT64\", \"shape\": [100000, 1], \"data\": [", "[1]", "]}]}",
        "the batch has 100000 items, 1 to 8 were expected");
}

/* The list has one element too many. It must be refused without memory for a list. */
static void expect_list_refused(const char *path, const char *begin, const char *element, const char *end,
                                const char *message)
{
    enum { COUNT = (1 << 20) + 1 };
    int64_t limit = native_service.results.limit;
    struct writer body = {0};
    writer_text(&body, begin);
    for (int i = 0; i < COUNT; i++) {
        if (i > 0)
            writer_text(&body, ",");
        writer_text(&body, element);
    }
    writer_text(&body, end);
    writer_bytes(&body, "", 1);
    native_service.results.limit = 1000;
    print_message("%s %s%s\n", path, begin, element);
    expect_failure(path, body.data, FAILURE_INVALID, message);
    assert_int_equal(native_service.results.used, 0);
    native_service.results.limit = limit;
    writer_free(&body);
}

static void long_lists_of_anything_are_refused_before_they_are_objects(void **state)
{
    (void)state;
    static const char *const elements[] = {"null", "true", "{}", "1234567890123456789", "1e400"};
    for (size_t i = 0; i < sizeof elements / sizeof elements[0]; i++) {
        expect_list_refused("/embed", "{\"inputs\": [", elements[i], "]}",
                            "inputs has 1048577 elements, this server takes at most 1048576: send less at once");
        expect_list_refused("/v1/embeddings", "{\"input\":[", elements[i], "], \"model\": \"ids\"}",
                            "input has 1048577 elements, this server takes at most 1048576: send less at once");
        expect_list_refused("/logits", "{\"inputs\": [5, [", elements[i], "]]}",
                            "a list in inputs has 1048577 elements, this server takes at most 1048576: send less at "
                            "once");
        expect_list_refused("/embed_all", "{\"model\": \"rows\", \"embeddings\": [[[", elements[i], "]]]}",
                            "a list in embeddings has 1048577 elements, this server takes at most 1048576: send less "
                            "at once");
        expect_list_refused("/logits", "{\"inputs\": [1, 2], \"positions\": [", elements[i], "]}",
                            "positions has 1048577 elements, this server takes at most 1048576: send less at once");
        expect_list_refused("/tokenize", "{\"inputs\": [", elements[i], "]}",
                            "inputs has 1048577 entries, this server takes at most 8 in one request");
        expect_list_refused("/tokenize", "{\"inputs\": [[", elements[i], "]]}",
                            "a list in inputs has 1048577 elements, this server takes at most 1048576: send less at "
                            "once");
        expect_list_refused("/decode", "{\"ids\": [[1], [", elements[i], "]]}",
                            "ids has 1048578 elements, this server takes at most 1048576: send less at once");
    }
    expect_list_refused("/decode", "{\"ids\": [", "100", "]}",
                        "ids has 1048577 elements, this server takes at most 1048576: send less at once");
    expect_list_refused("/decode", "{\"ids\": [", "[]", "]}",
                        "ids has 1048577 entries, this server takes at most 8 in one request");
    expect_list_refused("/logits", "{\"inputs\": \"a\", \"positions\": [", "0", "]}",
                        "positions has 1048577 elements, this server takes at most 1048576: send less at once");
}

/* Only jansson finds a key with an escape. */
static void limits_of_lists_hold_for_escaped_keys(void **state)
{
    (void)state;
    enum { COUNT = (1 << 20) + 1 };
    static const char *const bodies[][3] = {
        {"/decode", "{\"\\u0069ds\": [[9", "ids"},
        {"/logits", "{\"inputs\": \"a\", \"\\u0070ositions\": [0", "positions"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct writer body = {0};
        char message[128];

        writer_text(&body, bodies[i][1]);
        for (int n = 1; n < COUNT; n++)
            writer_text(&body, ",7");
        writer_text(&body, i == 0 ? "]]}" : "]}");
        writer_bytes(&body, "", 1);
        snprintf(message, sizeof message,
                 "%s has 1048577 elements, this server takes at most 1048576: send less at once", bodies[i][2]);
        expect_failure(bodies[i][0], body.data, FAILURE_INVALID, message);
        writer_free(&body);
    }
}

static void lists_are_counted_without_objects(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        struct numbers_counts counts;
    } cases[] = {
        {"{\"ids\": [1, 2, 3]}", {3, 3, 3, '1'}},
        {"{\"a\": {\"ids\": [1]}, \"ids\": [ null ,[1,2,3 ,4],\"],[\\\",\"]}", {3, 4, 6, 'n'}},
        {"{\"b\": [[1,2], \"ids\"], \"ids\" : [{\"a\":1,\"b\":[1,2,[]]},[]]}", {2, 3, 5, '{'}},
        {"{\"ids\": [[[[[[1,2,3]]]]]]}", {1, 1, 3, '['}},
        {"{\"ids\": [1,2", {2, 2, 2, '1'}},
        {"{\"ids\": [ ]}", {0}},
        {"{\"ids\": [", {0}},
        {"{\"ids\": \"[1,2]\"}", {0}},
        {"{\"id\": [1,2]}", {0}},
        {"", {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct numbers_counts expected = cases[i].counts,
                              counts = numbers_count(cases[i].body, strlen(cases[i].body), "ids");

        print_message("%s\n", cases[i].body);
        assert_int_equal(counts.elements, expected.elements);
        assert_int_equal(counts.longest, expected.longest);
        assert_int_equal(counts.values, expected.values);
        assert_int_equal(counts.first, expected.first);
    }
    char behind[2 * NUMBERS_REST] = "{\"a\": \"";
    memset(behind + strlen(behind), 'x', NUMBERS_REST);
    strcat(behind, "\", \"ids\": [1, 2]}");
    assert_int_equal(numbers_count(behind, strlen(behind), "ids").elements, 2);
}

/* A long list of elements that are no ids is not called a list of tokens. */
static void a_list_of_no_ids_is_named_by_its_first_element(void **state)
{
    (void)state;
    char body[1024] = "{\"inputs\": [[1], [null";
    for (int i = 0; i < FAKE_MAX_LENGTH; i++)
        strcat(body, ",null");
    strcat(body, "]]}");
    expect_failure("/embed", body, FAILURE_INVALID, "inputs[1][0] is null, an integer id was expected");
}

/* A text may be as long as the body. Nested lists would take 60 times the bytes of the body, so they are refused. */
static void json_takes_five_times_the_payload(void **state)
{
    (void)state;
    enum { PAYLOAD = 16 << 20, LISTS = 480000 };
    char *text = malloc(PAYLOAD + 1);
    const char *begin = "{\"truncate\": true, \"inputs\": \"", *end = "\"}";
    size_t length = (size_t)sprintf(text, "%s", begin);
    int64_t payload_limit = native_settings.payload_limit;
    struct request request;
    char message[256];
    native_settings.payload_limit = PAYLOAD;
    memset(text + length, 'x', PAYLOAD - length);
    memcpy(text + PAYLOAD - strlen(end), end, strlen(end));
    fake_reset();
    assert_int_equal(native_call("/embed", text, PAYLOAD, &request), 0);
    request_close(&request);
    length = (size_t)sprintf(text, "{\"inputs\": \"a\", \"ignored\": [[]");
    for (int i = 1; i < LISTS; i++, length += 3)
        memcpy(text + length, ",[]", 3);
    strcpy(text + length, "]}");
    snprintf(message, sizeof message,
             "the body's JSON would take %lld bytes of memory, this server gives a request 83886080: send less at once",
             (long long)json_body_memory(text, strlen(text)));
    expect_failure("/embed", text, FAILURE_TOO_LARGE, message);
    native_settings.payload_limit = payload_limit;
    free(text);
}

/* The memory for jansson has a limit that does not depend on the machine's memory. */
static void json_is_bounded_by_the_payload(void **state)
{
    (void)state;
    enum { COUNT = 500000 };
    char *body = malloc(3 * COUNT + 64), *end = body + sprintf(body, "{\"inputs\": \"a\", \"ignored\": [[]");
    char message[256];
    assert_non_null(body);
    for (int i = 1; i < COUNT; i++)
        end += sprintf(end, ",[]");
    strcpy(end, "]}");
    snprintf(message, sizeof message,
             "the body's JSON would take %lld bytes of memory, this server gives a request 67108864: send less at once",
             (long long)json_body_memory(body, strlen(body)));
    expect_failure("/embed", body, FAILURE_TOO_LARGE, message);
    free(body);
}

static void tokenize_has_a_bound(void **state)
{
    (void)state;
    enum { MOST = 1 << 20 };
    char *body = malloc(MOST + 64);
    struct request request;
    assert_non_null(body);
    for (int more = 0; more < 2; more++) {
        int at = sprintf(body, "{\"inputs\": [\"");
        memset(body + at, 'x', MOST - 1);
        strcpy(body + at + MOST - 1, more ? "\", \"yz\"]}" : "\", \"y\"]}");
        if (more) {
            expect_failure(
                "/tokenize", body, FAILURE_INVALID,
                "inputs has 1048577 tokens, this route tells at most 1048576 in one answer: send less at once");
            continue;
        }
        assert_int_equal(native_call("/tokenize", body, strlen(body), &request), 0);
        request_close(&request);
    }
    free(body);
}

/* Expects the ids of the request's only item. */
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

/* The ids are those of the package `tokenizers`: "ab" is 43 and 373, [CLS] 2, [SEP] 3, [MASK] 4. */
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

/* The message names the key as in the route. */
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
        "%s has 102 tokens, model \"words\" takes at most 64: shorten it, or set %struncate to true";
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
            /* "ab" 50 times is one word of 100 letters. Each letter is a token: first a, then ##b and ##a in turn. */
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
                   "inputs is a text, but model \"words\" has no tokenizer: give lists of ids");
    expect_failure("/v2/models/words/infer",
                   "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"BYTES\", \"shape\": [1], \"data\": [\"ab\"]}]}",
                   FAILURE_INVALID,
                   "input \"x\" has datatype BYTES, but model \"words\" has no tokenizer: INT64 or INT32 was expected");
    native_models[7].codec = codec;
}

/* The most memory that an encoding can take is taken from the budget before. Afterwards the unused part is given
 * back. */
static void the_memory_of_a_text_is_counted(void **state)
{
    (void)state;
    enum { LENGTH = 1 << 20 };
    int64_t limit = native_service.results.limit;
    char *body = malloc(LENGTH + 256);
    int at = sprintf(body, "{\"model\": \"words\", \"truncate\": true, \"inputs\": \"");
    struct request request;
    memset(body + at, 'x', LENGTH);
    strcpy(body + at + LENGTH, "\"}");
    native_service.results.limit = 100 * LENGTH;
    assert_int_equal(native_call("/embed", body, strlen(body), &request), -1);
    assert_int_equal(request.failure.kind, FAILURE_INVALID);
    assert_non_null(strstr(request.failure.error.message, "the request would take "));
    request_close(&request);
    native_service.results.limit = 250 * LENGTH;
    if (native_call("/embed", body, strlen(body), &request) != 0)
        fail_msg("%s", request.failure.error.message);
    request_read_done(&request);
    assert_in_range(native_service.results.used, FAKE_MAX_LENGTH * sizeof(int32_t), 4096);
    request_close(&request);
    assert_int_equal(atomic_load(&native_service.results.used), 0);
    native_service.results.limit = limit;
    free(body);
}

/* The memory that is counted for an answer is never less than the answer, even with the longest numbers. */
static void answers_are_no_longer_than_counted(void **state)
{
    (void)state;
    static const char *const bodies[][2] = {
        {"/embed", "{\"inputs\": [\"abc\", \"d\"], \"normalize\": false}"},
        {"/embed_all", "{\"inputs\": [\"abc\", \"d\"]}"},
        {"/embed_all", "{\"inputs\": [\"abc\", \"d\"], \"encoding_format\": \"base64\"}"},
        {"/logits", "{\"inputs\": [\"abc\", \"d\"]}"},
        {"/logits", "{\"inputs\": [\"abc\", \"d\"], \"top_k\": 259}"},
        {"/logits", "{\"inputs\": \"abc\", \"positions\": [2,2,2,2,2,2,2,1], \"top_k\": 1}"},
        {"/logits", "{\"model\": \"words\", \"inputs\": [\"abc\", \"d\"], \"top_k\": 1000}"},
        {"/logits", "{\"inputs\": [\"abc\", \"d\"], \"targets\": \"next\"}"},
        {"/logits", "{\"inputs\": [\"abcd\", \"d\"], \"targets\": \"next\", \"encoding_format\": \"base64\"}"},
        {"/v1/embeddings", "{\"input\": [\"abc\", \"d\"]}"},
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct request request;

        fake_reset();
        native_run = run_with_long_floats;
        assert_int_equal(native_call(bodies[i][0], bodies[i][1], strlen(bodies[i][1]), &request), 0);
        native_run = model_run;
        request_read_done(&request);
        assert_true(request.answer.length <= (size_t)request.answer_bytes);
        assert_true(request.answer_bytes <= native_service.results.used);
        assert_int_equal(request.answer.capacity, request.answer_bytes); /* the buffer never had to grow */
        request_close(&request);
    }
}

/* The target for a byte of a text is the id of the next byte. Only rows with a target are requested. */
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
                   "targets has 2 ids, but inputs has 3 tokens: one id for each token was expected, and -100 or null "
                   "where none is asked for");
}

static void positions_are_computed_once(void **state)
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

/* If the number of floats overflows, the request is refused before any memory is taken. */
static void counts_do_not_overflow(void **state)
{
    (void)state;
    int64_t limit = native_service.results.limit;
    struct request request;
    int64_t floats = 0;
    native_service.results.limit = INT64_MAX;
    request_open(&request, &native_service, "", 0);
    request_begin(&request);
    assert_int_equal(results_count(&request, INT64_MAX / 300, 1, &floats), 0);
    assert_true(results_text_bytes(floats, floats, false) > 0);
    assert_int_equal(results_count(&request, INT64_MAX / 300, 1, &floats), -1);
    assert_int_equal(results_count(&request, INT64_MAX / 300, 1000, &floats), -1);
    request_close(&request);
    native_service.results.limit = limit;
}

static void results_have_a_bound(void **state)
{
    (void)state;
    int64_t limit = native_service.results.limit;
    native_service.results.limit = 10000;
    /* the encoding of the text, its item, three ids, and the logits with their text */
    const size_t bytes = 651 + sizeof(struct engine_item) + 3 * sizeof(int32_t) + 16705;
    char message[256];
    snprintf(
        message, sizeof message,
        "the request would take %zu bytes of memory, this server gives one 10000: send fewer inputs at once, or ask "
        "for less of each",
        bytes);
    expect_failure("/logits", "{\"inputs\": \"abc\"}", FAILURE_INVALID, message);
    native_service.results.used = 9990;
    expect_failure("/logits", "{\"inputs\": \"abc\", \"top_k\": 1}", FAILURE_OVERLOADED,
                   "other requests take the memory that this one needs; try again later");
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
                   "there is no model \"none\" here, only \"bytes\", \"ids\", \"rows\", \"tensors\", "
                   "\"classes\", \"score\", \"pictures\", \"words\", \"pair\", \"writer\"");
    native_settings.strict = true;
    expect_failure("/embed", "{\"inputs\": [1], \"normalise\": true}", FAILURE_INVALID,
                   "unknown key \"normalise\"; known are inputs, embeddings, model, truncate, "
                   "truncation_direction, add_special_tokens, prompt_name, input_type, truncate_prompt_tokens, "
                   "encoding_format, normalize, pooling, dimensions, x");
    native_settings.strict = false;
    expect_failure("/embed", "{\n\"inputs\": tru}", FAILURE_MALFORMED,
                   "the body is not JSON: line 2 column 13: invalid token near 'tru'");
}

/* The message says which limit is exceeded: the model's, or the server's. The server's limit follows from its
 * memory. */
static void what_is_too_long_names_who_limits_it(void **state)
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

        snprintf(expected, sizeof expected,
                 i ? "embeddings has %d tokens, this server takes at most %d for model \"rows\" (--max-batch-tokens): "
                     "shorten it, or set truncate to true"
                   : "inputs has %d tokens, model \"ids\" takes at most %d: shorten it, or set truncate to true",
                 LENGTH, FAKE_MAX_LENGTH);
        expect_failure("/embed", body, FAILURE_INVALID, expected);
        json_decref(request);
        free(body);
    }
    json_decref(ids);
    json_decref(row);
    json_decref(rows);
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
        cmocka_unit_test(counted_memory_is_enough),
        cmocka_unit_test(json_has_a_bound),
        cmocka_unit_test(large_requests_leave_room_for_small_ones),
        cmocka_unit_test(texts_may_hold_nul),
        cmocka_unit_test(truncated_texts_cost_what_is_kept),
        cmocka_unit_test(lists_are_read_alike),
        cmocka_unit_test(long_lists_are_refused_without_an_object_for_each_number),
        cmocka_unit_test(long_lists_of_anything_are_refused_before_they_are_objects),
        cmocka_unit_test(limits_of_lists_hold_for_escaped_keys),
        cmocka_unit_test(lists_are_counted_without_objects),
        cmocka_unit_test(a_list_of_no_ids_is_named_by_its_first_element),
        cmocka_unit_test(json_takes_five_times_the_payload),
        cmocka_unit_test(json_is_bounded_by_the_payload),
        cmocka_unit_test(tokenize_has_a_bound),
        cmocka_unit_test(texts_have_the_ids_of_their_tokenizer),
        cmocka_unit_test(a_text_too_long_is_refused_or_cut),
        cmocka_unit_test(the_memory_of_a_text_is_counted),
        cmocka_unit_test(answers_are_no_longer_than_counted),
        cmocka_unit_test(targets_of_a_text_are_its_own_ids),
        cmocka_unit_test(positions_are_computed_once),
        cmocka_unit_test(counts_do_not_overflow),
        cmocka_unit_test(results_have_a_bound),
        cmocka_unit_test(what_the_model_refuses_names_the_input),
        cmocka_unit_test(what_is_too_long_names_who_limits_it),
    };
    return cmocka_run_group_tests(tests, open_models, close_models);
}
