/* Lists of numbers in bodies, with the fake engine: reading them with and without jansson, and limits for their
 * length. */
#include "server/text/numbers.h"
#include "tests/unit/native_expect.h"

#include <stdio.h>

/* Checks that two requests have the same inputs and answer, or the same failure. */
static void expect_same_result(const struct request *a, const struct request *b)
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

/* Bodies in which these letters stand for keys and lists:
 *
 *     I  the key inputs
 *     E  the key embeddings
 *     D  the key data
 *     L  a list that is too long for the model
 *     M  the same list, and a wrong number at its end */
static const struct {
    const char *path, *body;
} list_cases[] = {
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
    {"/v2/models/rows/infer", V2("[2, 2, 4]", "FP32", "[[[1, 2, 3, 4]], [[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]]]")},
};

/* Writes a body of list_cases to `text`, with keys and lists in place of their letters. `list` replaces L. If `escaped`
 * is true, the keys contain an escape. */
static void write_body(const char *body, const char *list, bool escaped, char *text)
{
    for (const char *in = body; *in; in++) {
        if (*in == 'I' && (in[1] == ':' || in[1] == ' '))
            text += sprintf(text, escaped ? "\"inp\\u0075ts\"" : "\"inputs\"");
        else if (*in == 'E' && in[1] == ':')
            text += sprintf(text, escaped ? "\"embedd\\u0069ngs\"" : "\"embeddings\"");
        else if (*in == 'D' && in[1] == ':')
            text += sprintf(text, escaped ? "\"d\\u0061ta\"" : "\"data\"");
        else if (*in == 'L')
            text += sprintf(text, "%s", list);
        else if (*in == 'M')
            text += sprintf(text, "%.*s, 1000]", (int)strlen(list) - 1, list);
        else
            *text++ = *in;
    }
    *text = '\0';
}

/* Lists of numbers must have the same result whether jansson reads them or not. If a key contains an escape, jansson
 * reads its list. */
static void number_lists_are_the_same_with_and_without_jansson(void **state)
{
    (void)state;
    char list[2048], text[8192];
    struct request requests[2];
    int at = sprintf(list, "[0");
    for (int i = 1; i <= FAKE_MAX_LENGTH; i++)
        at += sprintf(list + at, ", %d", i);
    strcat(list, "]");
    for (size_t i = 0; i < sizeof list_cases / sizeof *list_cases; i++) {
        for (int escaped = 0; escaped < 2; escaped++) {
            write_body(list_cases[i].body, list, escaped, text);
            fake_reset();
            native_call(list_cases[i].path, text, strlen(text), &requests[escaped]);
        }
        print_message("%s\n", list_cases[i].body);
        expect_same_result(&requests[0], &requests[1]);
        request_close(&requests[0]);
        request_close(&requests[1]);
    }
}

/* The body contains `part` 100000 times. It must be refused with less memory than jansson would need to parse it. */
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
        (int64_t)body.length * 3; /* a number needs 4 bytes of memory, and at least 2 bytes of the body */
    expect_failure(path, body.data, FAILURE_INVALID, message);
    assert_int_equal(native_service.results.used, 0);
    native_service.results.limit = limit;
    writer_free(&body);
}

static void long_lists_are_refused_without_an_object_for_each_number(void **state)
{
    (void)state;
    static const char too_many[] = "the request has 100000 inputs, this server accepts at most 8 in one request";
    expect_refused_cheaply("/embed", "{\"model\": \"ids\", \"inputs\": [", "[1]", "]}", too_many);
    expect_refused_cheaply("/embed", "{\"inputs\": [", "[[1]]", "]}", too_many);
    expect_refused_cheaply("/embed", "{\"inputs\": [", "[]", "]}", too_many);
    expect_refused_cheaply("/embed", "{\"inputs\": [", "\"a\"", "], \"truncate\": true}", too_many);
    expect_refused_cheaply("/embed", "{\"model\": \"rows\", \"embeddings\": [", "[[1]]", "]}", too_many);
    expect_refused_cheaply("/embed", "{\"model\": \"ids\", \"inputs\": [", "1", "]}",
                           "inputs has 100000 tokens, model \"ids\" accepts at most 64: shorten it, or set truncate to "
                           "true");
    expect_refused_cheaply("/embed", "{\"model\": \"ids\", \"truncate\": true, \"inputs\": [[2],[", "5000", "]]}",
                           "inputs[1][0] is 5000; ids of model \"ids\" are below 1000");
    expect_refused_cheaply(
        "/embed", "{\"model\": \"ids\", \"inputs\": [[2],[3.5,", "5", "]]}",
        "inputs[1] has 100001 tokens, model \"ids\" accepts at most 64: shorten it, or set truncate to "
        "true");
    expect_refused_cheaply("/embed", "{\"model\": \"rows\", \"embeddings\": [", "[1,2,3]", "]}",
                           "embeddings[0] has 3 values, but rows of model \"rows\" have 4");
    expect_refused_cheaply("/v1/embeddings", "{\"model\": \"ids\", \"input\": [", "[1]", "]}", too_many);
    expect_refused_cheaply(
        "/v2/models/ids/infer",
        "{\"inputs\": [{\"name\": \"x\", \"datatype\": \"INT64\", \"shape\": [100000, 1], \"data\": [", "[1]", "]}]}",
        "the batch has 100000 items, 1 to 8 were expected");
}

/* The body contains a list with one element too many. It must be refused with too little memory for any list. */
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
                            "inputs has 1048577 elements, this server accepts at most 1048576: send less at once");
        expect_list_refused("/v1/embeddings", "{\"input\":[", elements[i], "], \"model\": \"ids\"}",
                            "input has 1048577 elements, this server accepts at most 1048576: send less at once");
        expect_list_refused("/logits", "{\"inputs\": [5, [", elements[i], "]]}",
                            "a list in inputs has 1048577 elements, this server accepts at most 1048576: send less at "
                            "once");
        expect_list_refused("/embed_all", "{\"model\": \"rows\", \"embeddings\": [[[", elements[i], "]]]}",
                            "a list in embeddings has 1048577 elements, this server accepts at most 1048576: send less "
                            "at once");
        expect_list_refused("/logits", "{\"inputs\": [1, 2], \"positions\": [", elements[i], "]}",
                            "positions has 1048577 elements, this server accepts at most 1048576: send less at once");
        expect_list_refused("/tokenize", "{\"inputs\": [", elements[i], "]}",
                            "inputs has 1048577 entries, this server accepts at most 8 in one request");
        expect_list_refused("/tokenize", "{\"inputs\": [[", elements[i], "]]}",
                            "a list in inputs has 1048577 elements, this server accepts at most 1048576: send less at "
                            "once");
        expect_list_refused("/decode", "{\"ids\": [[1], [", elements[i], "]]}",
                            "ids has 1048578 elements, this server accepts at most 1048576: send less at once");
    }
    expect_list_refused("/decode", "{\"ids\": [", "100", "]}",
                        "ids has 1048577 elements, this server accepts at most 1048576: send less at once");
    expect_list_refused("/decode", "{\"ids\": [", "[]", "]}",
                        "ids has 1048577 entries, this server accepts at most 8 in one request");
    expect_list_refused("/logits", "{\"inputs\": \"a\", \"positions\": [", "0", "]}",
                        "positions has 1048577 elements, this server accepts at most 1048576: send less at once");
}

/* jansson finds the list of a key with an escape, but native_check_list does not. */
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
                 "%s has 1048577 elements, this server accepts at most 1048576: send less at once", bodies[i][2]);
        expect_failure(bodies[i][0], body.data, FAILURE_INVALID, message);
        writer_free(&body);
    }
}

static void lists_are_counted_without_making_json_objects(void **state)
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

/* The elements of the list are no ids, so the message must not count them as tokens. */
static void a_list_without_ids_is_refused_at_its_first_element(void **state)
{
    (void)state;
    char body[1024] = "{\"inputs\": [[1], [null";
    for (int i = 0; i < FAKE_MAX_LENGTH; i++)
        strcat(body, ",null");
    strcat(body, "]]}");
    expect_failure("/embed", body, FAILURE_INVALID, "inputs[1][0] is null, an integer id was expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(number_lists_are_the_same_with_and_without_jansson),
        cmocka_unit_test(long_lists_are_refused_without_an_object_for_each_number),
        cmocka_unit_test(long_lists_of_anything_are_refused_before_they_are_objects),
        cmocka_unit_test(limits_of_lists_hold_for_escaped_keys),
        cmocka_unit_test(lists_are_counted_without_making_json_objects),
        cmocka_unit_test(a_list_without_ids_is_refused_at_its_first_element),
    };
    return cmocka_run_group_tests(tests, native_setup, native_teardown);
}
