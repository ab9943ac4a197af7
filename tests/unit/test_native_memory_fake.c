/* The memory of requests, with the fake engine: how much is charged before it is allocated, and the limits for it. */
#include "server/dialects/results.h"
#include "tests/unit/native_expect.h"

#include <malloc.h>
#include <stdio.h>

/* Runs a job, and replaces each result by a float whose text is as long as possible. */
static int run_with_long_floats(struct model *model, int lane, const struct engine_item *items, int64_t n_items,
                                struct error *error)
{
    const float longest = -1.00000025e-5f; /* written as -0.0000100000025 */
    if (model_run(model, lane, items, n_items, error) != 0)
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

/* Bodies that consist of brackets, commas, keys or texts. The memory that is charged for each must be at least the
 * memory that jansson allocates. */
static void counted_memory_covers_that_of_jansson(void **state)
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

static void json_that_needs_too_much_memory_is_refused(void **state)
{
    (void)state;
    struct budget *budget = &native_service.results;
    int64_t limit = budget->limit;
    struct request request;
    budget->limit = 2000;
    expect_failure("/embed", "{\"inputs\":[{},{},{},{},{},{},{},{},{},{}]}", FAILURE_TOO_LARGE,
                   "the body's JSON needs 4056 bytes of memory, this server allows at most 2000: send less at "
                   "once");
    budget->used = 1990;
    expect_failure("/embed", "{\"inputs\":[1]}", FAILURE_OVERLOADED,
                   "other requests use the memory that this one needs; try again later");
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

/* The last part of the budget is reserved for small requests. */
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

/* A text of 1 MiB is truncated to 64 ids. The tokenizer must not make more ids. */
static void truncated_texts_count_only_the_kept_tokens(void **state)
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

/* A text may be as long as the body. But nested lists that need 60 times as many bytes as the body must be refused. */
static void json_may_need_memory_of_five_times_the_payload_limit(void **state)
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
             "the body's JSON needs %lld bytes of memory, this server allows at most 83886080: send less at once",
             (long long)json_body_memory(text, strlen(text)));
    expect_failure("/embed", text, FAILURE_TOO_LARGE, message);
    native_settings.payload_limit = payload_limit;
    free(text);
}

/* The limit for jansson's memory must not depend on the memory of the machine. */
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
             "the body's JSON needs %lld bytes of memory, this server allows at most 67108864: send less at once",
             (long long)json_body_memory(body, strlen(body)));
    expect_failure("/embed", body, FAILURE_TOO_LARGE, message);
    free(body);
}

static void tokenize_refuses_too_many_tokens(void **state)
{
    (void)state;
    enum { MAX_TOKENS = 1 << 20 };
    char *body = malloc(MAX_TOKENS + 64);
    struct request request;
    assert_non_null(body);
    for (int more = 0; more < 2; more++) {
        int at = sprintf(body, "{\"inputs\": [\"");
        memset(body + at, 'x', MAX_TOKENS - 1);
        strcpy(body + at + MAX_TOKENS - 1, more ? "\", \"yz\"]}" : "\", \"y\"]}");
        if (more) {
            expect_failure(
                "/tokenize", body, FAILURE_INVALID,
                "inputs has 1048577 tokens, this route returns at most 1048576 in one answer: send less at once");
            continue;
        }
        assert_int_equal(native_call("/tokenize", body, strlen(body), &request), 0);
        request_close(&request);
    }
    free(body);
}

/* The maximum memory of an encoding is charged before the text is encoded. The unused part is returned afterwards. */
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
    assert_non_null(strstr(request.failure.error.message, "the request needs "));
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

/* The memory that is charged for an answer must be at least the length of the answer, even with the longest numbers. */
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
        assert_int_equal(request.answer.capacity, request.answer_bytes); /* the buffer has not grown */
        request_close(&request);
    }
}

/* If the number of floats would overflow, the request must be refused before any memory is charged. */
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
    assert_int_equal(native_service.results.used, 0);
    request_close(&request);
    native_service.results.limit = limit;
}

static void results_that_need_too_much_memory_are_refused(void **state)
{
    (void)state;
    int64_t limit = native_service.results.limit;
    native_service.results.limit = 10000;
    /* the encoding of the text, its item, three ids, and the logits with their text */
    const size_t bytes = 651 + sizeof(struct engine_item) + 3 * sizeof(int32_t) + 16705;
    char message[256];
    snprintf(message, sizeof message,
             "the request needs %zu bytes of memory, this server allows at most 10000: send fewer inputs at once, or "
             "request less for each",
             bytes);
    expect_failure("/logits", "{\"inputs\": \"abc\"}", FAILURE_INVALID, message);
    native_service.results.used = 9990;
    expect_failure("/logits", "{\"inputs\": \"abc\", \"top_k\": 1}", FAILURE_OVERLOADED,
                   "other requests use the memory that this one needs; try again later");
    assert_int_equal(native_service.results.used, 9990);
    native_service.results.used = 0;
    native_service.results.limit = limit;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counted_memory_covers_that_of_jansson),
        cmocka_unit_test(json_that_needs_too_much_memory_is_refused),
        cmocka_unit_test(large_requests_leave_room_for_small_ones),
        cmocka_unit_test(truncated_texts_count_only_the_kept_tokens),
        cmocka_unit_test(json_may_need_memory_of_five_times_the_payload_limit),
        cmocka_unit_test(json_is_bounded_by_the_payload),
        cmocka_unit_test(tokenize_refuses_too_many_tokens),
        cmocka_unit_test(the_memory_of_a_text_is_counted),
        cmocka_unit_test(answers_are_no_longer_than_counted),
        cmocka_unit_test(counts_do_not_overflow),
        cmocka_unit_test(results_that_need_too_much_memory_are_refused),
    };
    return cmocka_run_group_tests(tests, native_setup, native_teardown);
}
