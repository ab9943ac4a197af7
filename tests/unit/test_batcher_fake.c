/* The batcher over an engine that can be held. Nothing here waits for a length of time: a test closes the gate, knows
 * what waits behind it, and lets batches through one by one. LINFORMERD_TEST_SEED repeats a random run. */
#include "server/batcher.h"
#include "server/log.h"
#include "server/metrics.h"
#include "tests/fake_engine.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define MAX_ITEMS 24
#define MAX_LENGTH 8
#define MODELS 3
#define MANY 1000000

static struct model *models[MODELS];
static struct batcher *batcher;

/* ---- Requests ---- */

struct request {
    struct job job;
    struct engine_item items[MAX_ITEMS];
    int32_t ids[MAX_ITEMS][MAX_LENGTH];
    float hidden[MAX_ITEMS][MAX_LENGTH][FAKE_COLUMNS];
    int calls; /* of done; guarded by done_lock, like place */
    int place; /* in the order of all ends since the setup */
    bool unwanted;
};

static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_changed = PTHREAD_COND_INITIALIZER;
static int ends;

static void on_done(struct job *job)
{
    struct request *request = job->context;
    pthread_mutex_lock(&done_lock);
    request->calls++;
    request->place = ends++;
    pthread_cond_broadcast(&done_changed);
    pthread_mutex_unlock(&done_lock);
}

static bool is_wanted(struct job *job)
{
    return !((struct request *)job->context)->unwanted;
}

/* Items of `length` rows each; every row of item i has the id first_id + i. */
static struct request *request_new(int64_t n_items, int64_t length, int32_t first_id)
{
    struct request *request = calloc(1, sizeof *request);
    assert_non_null(request);
    assert_true(n_items <= MAX_ITEMS && length <= MAX_LENGTH);
    for (int64_t i = 0; i < n_items; i++) {
        for (int64_t row = 0; row < length; row++)
            request->ids[i][row] = first_id + (int32_t)i;
        request->items[i].inputs[0].data = request->ids[i];
        request->items[i].inputs[0].length = length;
        request->items[i].hidden = &request->hidden[i][0][0];
    }
    request->job.items = request->items;
    request->job.n_items = n_items;
    request->job.done = on_done;
    request->job.wanted = is_wanted;
    request->job.context = request;
    return request;
}

static struct request *submit_to(int64_t model_index, struct request *request)
{
    assert_int_equal(batcher_submit(batcher, model_index, &request->job), SUBMIT_OK);
    return request;
}

static struct request *submit(int64_t n_items, int64_t length, int32_t first_id)
{
    return submit_to(0, request_new(n_items, length, first_id));
}

static void wait_done(const struct request *request)
{
    pthread_mutex_lock(&done_lock);
    while (request->calls == 0)
        pthread_cond_wait(&done_changed, &done_lock);
    pthread_mutex_unlock(&done_lock);
}

static int calls_of(const struct request *request)
{
    pthread_mutex_lock(&done_lock);
    int calls = request->calls;
    pthread_mutex_unlock(&done_lock);
    return calls;
}

static void assert_results(const struct request *request)
{
    for (int64_t i = 0; i < request->job.n_items; i++)
        for (int64_t row = 0; row < request->items[i].inputs[0].length; row++)
            for (int64_t column = 0; column < FAKE_COLUMNS; column++)
                assert_true(request->hidden[i][row][column] == fake_hidden(request->ids[i][row], row, column));
}

/* Waits for it, expects that end, frees it. */
static void expect(struct request *request, enum job_status status)
{
    wait_done(request);
    assert_int_equal(request->job.status, status);
    assert_int_equal(calls_of(request), 1);
    assert_true(request->job.finished_ns >= request->job.submitted_ns);
    if (status == JOB_OK) {
        assert_results(request);
        assert_true(request->job.started_ns >= request->job.submitted_ns);
        assert_true(request->job.finished_ns >= request->job.started_ns);
        assert_string_equal(request->job.error.message, "");
    } else {
        assert_true(strlen(request->job.error.message) > 0);
    }
    free(request);
}

/* ---- The record ---- */

/* Batch `index` held exactly these items, named by their first ids. -1 ends the list. */
static void expect_batch(int64_t index, ...)
{
    int32_t found[64];
    int64_t n_found = fake_batch(index, NULL, found, 64), count = 0;
    va_list ids;
    va_start(ids, index);
    for (int id = va_arg(ids, int); id >= 0; id = va_arg(ids, int), count++) {
        assert_true(count < n_found);
        assert_int_equal(found[count], id);
    }
    va_end(ids);
    assert_int_equal(count, n_found);
}

static void expect_model(int64_t index, int64_t model_index)
{
    const struct model *model = NULL;
    assert_true(fake_batch(index, &model, NULL, 0) > 0);
    assert_ptr_equal(model, models[model_index]);
}

static void expect_depth(int64_t requests, int64_t tokens)
{
    int64_t found_requests = -1, found_tokens = -1;
    batcher_depth(batcher, &found_requests, &found_tokens);
    assert_int_equal(found_requests, requests);
    assert_int_equal(found_tokens, tokens);
}

/* ---- Opening ---- */

static void open_bounded(int64_t tokens, int64_t requests, int64_t queue_tokens, int64_t queue_requests,
                         struct metrics *metrics)
{
    struct batcher_options options = {tokens, requests, queue_tokens, queue_requests};
    struct error error;
    fake_limits(tokens, requests);
    assert_int_equal(batcher_open(models, MODELS, &options, metrics, &batcher, &error), 0);
}

static void open_with(int64_t tokens, int64_t requests)
{
    open_bounded(tokens, requests, MANY, MANY, NULL);
}

/* One request that stands at the gate, so that what is submitted next waits. */
static struct request *hold(int32_t id)
{
    fake_gate_close();
    struct request *blocker = submit(1, 1, id);
    fake_wait_for_batches(1);
    return blocker;
}

static int setup(void **context)
{
    (void)context;
    fake_reset();
    ends = 0;
    for (int i = 0; i < MODELS; i++)
        models[i] = fake_model(NULL);
    return 0;
}

static int teardown(void **context)
{
    (void)context;
    fake_gate_open();
    batcher_close(batcher);
    batcher = NULL;
    for (int i = 0; i < MODELS; i++)
        model_close(models[i]);
    int64_t violations = fake_violations();
    fake_reset();
    return violations == 0 ? 0 : -1;
}

/* ---- Batches ---- */

static void test_one_job(void **context)
{
    (void)context;
    open_with(100, 8);
    struct request *request = submit(3, 2, 10);
    wait_done(request);
    assert_int_equal(request->job.tokens, 6);
    expect(request, JOB_OK);
    expect_batch(0, 10, 11, 12, -1);
    expect_depth(0, 0);
}

static void test_arrival_order(void **context)
{
    (void)context;
    open_with(100, 1);
    struct request *requests[5] = {hold(1)};
    for (int i = 1; i < 5; i++)
        requests[i] = submit(1, 2, i + 1);
    expect_depth(4, 8);
    fake_gate_open();
    for (int i = 0; i < 5; i++)
        wait_done(requests[i]);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(requests[i]->place, i);
        expect_batch(i, i + 1, -1);
        expect(requests[i], JOB_OK);
    }
}

static void test_waiting_jobs_share_a_batch(void **context)
{
    (void)context;
    open_with(10, 3);
    struct request *blocker = hold(1);
    struct request *requests[] = {submit(1, 4, 10), submit(1, 4, 20), submit(1, 4, 30),
                                  submit(1, 1, 40), submit(1, 1, 50), submit(1, 1, 60)};
    fake_gate_open();
    expect(blocker, JOB_OK);
    for (int i = 0; i < 6; i++)
        expect(requests[i], JOB_OK);
    expect_batch(1, 10, 20, 40, -1); /* 30 doesn't fit, 40 does: three items */
    expect_batch(2, 30, 50, 60, -1);
}

static void test_long_item_is_a_batch_of_its_own(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *blocker = hold(1);
    struct request *before = submit(1, 1, 10), *longer = submit(2, 8, 20), *after = submit(1, 1, 30);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(before, JOB_OK);
    expect(longer, JOB_OK);
    expect(after, JOB_OK);
    expect_batch(1, 10, 30, -1);
    expect_batch(2, 20, -1);
    expect_batch(3, 21, -1);
}

static void test_large_job_is_split(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *blocker = hold(1), *large = submit(10, 1, 10);
    fake_gate_open();
    expect(blocker, JOB_OK);
    wait_done(large);
    assert_true(large->job.inference_ns >= 0);
    expect(large, JOB_OK);
    expect_batch(1, 10, 11, 12, 13, -1);
    expect_batch(2, 14, 15, 16, 17, -1);
    expect_batch(3, 18, 19, -1);
    assert_int_equal(fake_batches(), 4);
}

static void test_small_job_passes_the_large_one_that_runs(void **context)
{
    (void)context;
    open_with(4, 8);
    fake_gate_close();
    struct request *large = submit(12, 1, 10);
    fake_wait_for_batches(1);
    struct request *small = submit(1, 1, 90);
    fake_gate_pass();
    fake_wait_for_batches(2);
    fake_gate_pass();
    wait_done(small);
    assert_int_equal(calls_of(large), 0);
    fake_gate_open();
    expect(small, JOB_OK);
    expect(large, JOB_OK);
    expect_batch(1, 90, 14, 15, 16, -1);
}

static void test_large_jobs_take_turns(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *blocker = hold(1);
    struct request *large = submit(9, 1, 10), *larger = submit(9, 1, 30), *small = submit(2, 1, 90);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(large, JOB_OK);
    expect(larger, JOB_OK);
    expect(small, JOB_OK);
    expect_batch(1, 10, 11, 12, 13, -1);
    expect_batch(2, 30, 31, 32, 33, -1);
    expect_batch(3, 90, 91, 14, 15, -1);
    expect_batch(4, 16, 17, 18, 34, -1);
    expect_batch(5, 35, 36, 37, 38, -1);
}

static void test_job_that_filled_a_rest_keeps_its_place(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *blocker = hold(1);
    struct request *requests[] = {submit(3, 1, 10), submit(3, 1, 20), submit(3, 1, 30)};
    fake_gate_open();
    expect(blocker, JOB_OK);
    for (int i = 0; i < 3; i++)
        expect(requests[i], JOB_OK);
    expect_batch(1, 10, 11, 12, 20, -1);
    expect_batch(2, 21, 22, 30, 31, -1);
    expect_batch(3, 32, -1);
}

static void test_models_take_turns(void **context)
{
    (void)context;
    open_with(100, 1);
    struct request *requests[10] = {hold(1)};
    for (int i = 1; i < 10; i++)
        requests[i] = submit_to((i - 1) / 3, request_new(1, 1, 10 * i));
    fake_gate_open();
    for (int i = 0; i < 10; i++)
        expect(requests[i], JOB_OK);
    for (int i = 0; i < 10; i++)
        expect_model(i, i % 3);
    expect_batch(1, 40, -1);
    expect_batch(2, 70, -1);
    expect_batch(3, 10, -1);
}

/* ---- Jobs that end early ---- */

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void pass_time_until(int64_t time_ns)
{
    while (now_ns() < time_ns)
        sched_yield();
}

/* The answer comes while the batch before it still stands at the gate. */
static void test_expired_job_is_answered_during_a_batch(void **context)
{
    (void)context;
    open_with(100, 8);
    struct request *blocker = hold(1);
    struct request *patient = request_new(1, 1, 20), *late = request_new(2, 3, 30), *later = request_new(1, 1, 40);
    patient->job.deadline_ns = INT64_MAX;
    late->job.deadline_ns = 1;
    later->job.deadline_ns = now_ns() + 2000000;
    submit_to(1, patient);
    submit_to(1, late);
    submit_to(2, later);
    expect(late, JOB_EXPIRED);
    expect(later, JOB_EXPIRED);
    assert_int_equal(calls_of(blocker), 0);
    assert_int_equal(calls_of(patient), 0);
    expect_depth(1, 1);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(patient, JOB_OK);
    assert_int_equal(fake_batches(), 2);
}

/* Starts a job whose deadline passes while its first batch stands at the gate. When the machine was too slow to start
 * it in time, it is tried again with more. */
static struct request *start_and_let_expire(int64_t n_items)
{
    for (int64_t patience_ns = 10000000;; patience_ns *= 2) {
        fake_gate_close();
        int64_t batches = fake_batches();
        struct request *request = request_new(n_items, 1, 10);
        request->job.deadline_ns = now_ns() + patience_ns;
        submit_to(0, request);
        while (calls_of(request) == 0 && fake_batches() == batches)
            sched_yield();
        if (fake_batches() > batches) {
            pass_time_until(request->job.deadline_ns);
            return request;
        }
        expect(request, JOB_EXPIRED);
    }
}

static void test_deadline_between_batches_of_a_job(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *request = start_and_let_expire(6);
    int64_t batches = fake_batches();
    assert_int_equal(calls_of(request), 0); /* never while an item of it runs */
    fake_gate_open();
    wait_done(request);
    assert_string_equal(request->job.error.message,
                        "the request's time was over when 4 of its 6 sequences had been started");
    assert_true(request->job.started_ns > 0);
    expect(request, JOB_EXPIRED);
    expect_depth(0, 0);
    assert_int_equal(fake_batches(), batches);
}

static void test_deadline_after_all_was_started(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *request = start_and_let_expire(4);
    fake_gate_open();
    wait_done(request);
    assert_string_equal(request->job.error.message,
                        "the request's time was over when 4 of its 4 sequences had been started");
    expect(request, JOB_EXPIRED);
}

static void test_cancel_of_a_waiting_job(void **context)
{
    (void)context;
    open_with(100, 8);
    struct request *blocker = hold(1), *waiting = submit(2, 3, 10), *behind = submit(1, 1, 20);
    batcher_cancel(batcher, &waiting->job);
    wait_done(waiting);
    assert_int_equal(calls_of(blocker), 0);
    assert_int_equal(waiting->job.started_ns, 0);
    batcher_cancel(batcher, &waiting->job); /* after its end: nothing */
    expect_depth(1, 1);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(behind, JOB_OK);
    expect(waiting, JOB_CANCELLED);
    expect_batch(1, 20, -1);
}

static void test_cancel_of_a_running_job(void **context)
{
    (void)context;
    open_with(4, 8);
    fake_gate_close();
    struct request *running = submit(9, 1, 10);
    fake_wait_for_batches(1);
    batcher_cancel(batcher, &running->job);
    batcher_cancel(batcher, &running->job);
    expect_depth(0, 0);
    assert_int_equal(calls_of(running), 0);
    fake_gate_open();
    expect(running, JOB_CANCELLED);
    assert_int_equal(fake_batches(), 1);
}

static void test_unwanted_jobs_are_not_run(void **context)
{
    (void)context;
    open_with(100, 8);
    struct request *blocker = hold(1);
    struct request *requests[] = {request_new(2, 1, 10), request_new(2, 1, 20), request_new(1, 1, 30),
                                  request_new(1, 1, 40)};
    requests[0]->unwanted = requests[2]->unwanted = true;
    for (int i = 0; i < 4; i++)
        submit_to(0, requests[i]);
    fake_gate_open();
    expect(blocker, JOB_OK);
    for (int i = 0; i < 4; i++)
        expect(requests[i], i % 2 ? JOB_OK : JOB_CANCELLED);
    expect_batch(1, 20, 21, 40, -1);
}

static void test_batch_of_unwanted_jobs_only(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *request = request_new(9, 1, 10);
    request->unwanted = true;
    submit_to(0, request);
    expect(request, JOB_CANCELLED);
    expect_depth(0, 0);
    assert_int_equal(fake_batches(), 0);
}

/* ---- Bounds ---- */

static void expect_refused(int64_t n_items, int64_t length, enum submit_status status)
{
    struct request *request = request_new(n_items, length, 500);
    assert_int_equal(batcher_submit(batcher, 0, &request->job), status);
    assert_int_equal(request->calls, 0);
    free(request);
}

static void test_full_queue(void **context)
{
    (void)context;
    open_bounded(100, 8, 20, 4, NULL);
    struct request *blocker = hold(1), *first = submit(2, 5, 10);
    expect_refused(3, 1, SUBMIT_FULL); /* five items */
    expect_refused(2, 6, SUBMIT_FULL); /* 22 tokens */
    struct request *second = submit(2, 5, 20);
    expect_refused(1, 1, SUBMIT_FULL);
    struct request *other = submit_to(1, request_new(4, 5, 40)); /* of another model, whose queue is its own */
    expect_depth(8, 40);
    batcher_cancel(batcher, &first->job);
    struct request *third = submit(2, 5, 30);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(first, JOB_CANCELLED);
    expect(second, JOB_OK);
    expect(other, JOB_OK);
    expect(third, JOB_OK);
    assert_in_range(batcher_retry_after_s(batcher, 0), 1, 1);
}

static void test_job_beyond_the_bounds_enters_an_empty_queue(void **context)
{
    (void)context;
    open_bounded(100, 8, 20, 4, NULL);
    struct request *blocker = hold(1), *large = submit(9, 8, 10);
    expect_refused(1, 1, SUBMIT_FULL);
    assert_true(batcher_retry_after_s(batcher, 0) >= 1);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(large, JOB_OK);
}

static void test_drain(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *blocker = hold(1), *large = submit(9, 1, 10), *small = submit(1, 1, 90);
    batcher_drain(batcher);
    expect_refused(1, 1, SUBMIT_DRAINING);
    fake_gate_open();
    batcher_close(batcher);
    batcher = NULL;
    assert_int_equal(blocker->calls, 1);
    assert_int_equal(large->calls, 1);
    assert_int_equal(small->calls, 1);
    expect(blocker, JOB_OK);
    expect(large, JOB_OK);
    expect(small, JOB_OK);
}

static void test_close_without_work(void **context)
{
    (void)context;
    open_with(4, 8);
    batcher_close(NULL);
}

/* ---- Trouble ---- */

static void test_failed_batch(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *blocker = hold(1);
    struct request *mate = submit(1, 1, 10), *failing = submit(9, 1, FAKE_ID_FAIL), *next = submit(1, 1, 20);
    fake_gate_open();
    expect(blocker, JOB_OK);
    wait_done(mate);
    assert_string_equal(mate->job.error.message, "the fake device failed");
    expect(mate, JOB_FAILED);
    expect(failing, JOB_FAILED);
    expect(next, JOB_OK);
    expect_depth(0, 0);
    assert_int_equal(fake_batches(), 3);
}

/* One item with trouble in row 5 of `request`, which wants what `want` sets; others in the batch are served. */
static void expect_flaw(struct request *bad, const char *message)
{
    fake_gate_close();
    int64_t batches = fake_batches();
    struct request *blocker = submit(1, 1, 1);
    fake_wait_for_batches(batches + 1);
    struct request *before = submit(1, 2, 10), *after = submit(1, 2, 20);
    submit_to(0, bad);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(before, JOB_OK);
    expect(after, JOB_OK);
    wait_done(bad);
    assert_string_equal(bad->job.error.message, message);
    expect(bad, JOB_NOT_FINITE);
    assert_int_equal(fake_batches(), batches + 2);
}

static struct request *request_with_trouble(int32_t trouble)
{
    struct request *request = request_new(3, 8, 30);
    request->ids[2][5] = trouble;
    for (int i = 0; i < 3; i++)
        request->items[i].hidden = NULL;
    return request;
}

static void test_result_that_is_not_finite(void **context)
{
    (void)context;
    static float output[3][8][FAKE_VOCABULARY], values[3][8][4];
    static int32_t columns[3][8][4];
    static const int32_t rows[] = {7, 0, 5};
    open_with(100, 8);

    struct request *request = request_new(3, 8, 30);
    request->ids[2][5] = FAKE_ID_NAN;
    expect_flaw(request, "sequence 2: row 5 of the last hidden state holds NaN or an infinity");

    request = request_with_trouble(FAKE_ID_INFINITE);
    for (int i = 0; i < 3; i++)
        request->items[i].pooled = request->hidden[i][0];
    expect_flaw(request, "sequence 2: row 0 of the pooled vector holds NaN or an infinity");

    request = request_with_trouble(FAKE_ID_NAN);
    for (int i = 0; i < 3; i++) {
        request->items[i].output = output[i][0];
        request->items[i].n_rows = 8;
    }
    expect_flaw(request, "sequence 2: row 5 of the output holds NaN or an infinity");

    request = request_with_trouble(FAKE_ID_INFINITE);
    for (int i = 0; i < 3; i++) {
        request->items[i].top_k = 4;
        request->items[i].top_columns = columns[i][0];
        request->items[i].top_values = values[i][0];
        request->items[i].rows = rows;
        request->items[i].n_rows = 3;
    }
    expect_flaw(request, "sequence 2: row 5 of the output's best values holds NaN or an infinity");
}

/* The rest of a job with a flaw isn't run. */
static void test_flaw_in_a_split_job(void **context)
{
    (void)context;
    open_with(4, 8);
    struct request *bad = request_new(12, 1, 10);
    bad->ids[1][0] = FAKE_ID_INFINITE;
    submit_to(0, bad);
    expect(bad, JOB_NOT_FINITE);
    assert_int_equal(fake_batches(), 1);
}

static void test_batches_are_counted(void **context)
{
    (void)context;
    struct metrics *metrics = metrics_open();
    open_bounded(4, 8, MANY, MANY, metrics);
    expect(submit(10, 1, 10), JOB_OK);
    expect(submit(1, 1, FAKE_ID_FAIL), JOB_FAILED);
    batcher_close(batcher);
    batcher = NULL;
    size_t length;
    char *text = metrics_text(metrics, &(struct metrics_now){.uptime_s = 1}, &length);
    assert_non_null(strstr(text, "\nlinformerd_batch_items_count 3\n"));
    assert_non_null(strstr(text, "\nlinformerd_batch_items_sum 10\n"));
    assert_non_null(strstr(text, "\nlinformerd_batch_tokens_sum 10\n"));
    free(text);
    metrics_close(metrics);
}

/* ---- Lanes ---- */

/* Models 0 and 2 share two lanes; model 1 has one of its own. */
static void open_lanes(int64_t tokens, int64_t requests)
{
    fake_lanes(models[0], 1, 2);
    fake_lanes(models[1], 0, 1);
    fake_lanes(models[2], 1, 2);
    open_with(tokens, requests);
}

static void test_two_batches_in_flight(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_gate_close();
    struct request *first = submit(1, 1, 10);
    fake_wait_for_batches(1);
    struct request *second = submit(1, 1, 20);
    fake_wait_for_batches(2);
    struct request *third = submit(1, 1, 30), *fourth = submit(1, 1, 40);
    expect_depth(2, 2);
    fake_gate_open();
    expect(first, JOB_OK);
    expect(second, JOB_OK);
    expect(third, JOB_OK);
    expect(fourth, JOB_OK);
}

/* Nobody submits anything after the large job: the lane that takes its first items wakes the other one. */
static void test_split_job_runs_on_all_lanes(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_gate_close();
    struct request *large = submit(12, 1, 10);
    fake_wait_for_batches(2);
    expect_depth(4, 4);
    fake_gate_open();
    expect(large, JOB_OK);
    assert_int_equal(fake_batches(), 3);
}

/* The lane that runs its last items is through; the other one still writes into the job's memory. */
static void test_split_job_ends_with_its_last_batch(void **context)
{
    (void)context;
    open_lanes(4, 8);
    for (int round = 0; round < 2; round++) {
        int64_t batches = fake_batches();
        fake_gate_close_for(models[0]);
        struct request *large = submit(8, 1, 10);
        fake_wait_for_batches(batches + 2);
        if (round == 1)
            batcher_cancel(batcher, &large->job);
        fake_gate_pass();
        expect(submit_to(2, request_new(1, 1, 90)), JOB_OK); /* on the lane that is free again */
        assert_int_equal(calls_of(large), 0);
        fake_gate_open();
        expect(large, round == 1 ? JOB_CANCELLED : JOB_OK);
    }
}

static void test_small_job_passes_a_large_one_on_all_lanes(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_gate_close();
    struct request *large = submit(16, 1, 10);
    fake_wait_for_batches(2);
    struct request *small = submit(1, 1, 90);
    fake_gate_pass();
    fake_wait_for_batches(3);
    expect_batch(2, 90, 18, 19, 20, -1);
    fake_gate_open();
    expect(small, JOB_OK);
    expect(large, JOB_OK);
}

static void test_stuck_lanes_lose_nothing_of_others(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_gate_close_for(models[1]);
    struct request *stuck = submit_to(1, request_new(1, 1, 10));
    fake_wait_for_batches(1);
    struct request *waiting = submit_to(1, request_new(1, 1, 11));
    for (int i = 0; i < 20; i++) /* the lane that is stuck is none of theirs */
        expect(submit_to(i % 2 ? 0 : 2, request_new(1, 1, 20)), JOB_OK);
    assert_int_equal(calls_of(stuck), 0);
    assert_int_equal(calls_of(waiting), 0);
    fake_gate_open();
    expect(stuck, JOB_OK);
    expect(waiting, JOB_OK);

    int64_t batches = fake_batches();
    fake_gate_close_for(models[2]);
    stuck = submit_to(2, request_new(1, 1, 10));
    fake_wait_for_batches(batches + 1);
    for (int i = 0; i < 20; i++) /* on the other lane */
        expect(submit_to(0, request_new(1, 1, 20)), JOB_OK);
    assert_int_equal(calls_of(stuck), 0);
    fake_gate_open();
    expect(stuck, JOB_OK);
}

static void test_close_waits_for_all_lanes(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_gate_close();
    struct request *requests[] = {submit(9, 1, 10), submit_to(1, request_new(9, 1, 30)),
                                  submit_to(2, request_new(9, 1, 50))};
    fake_wait_for_batches(3);
    batcher_drain(batcher);
    expect_refused(1, 1, SUBMIT_DRAINING);
    fake_gate_open();
    batcher_close(batcher);
    batcher = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(requests[i]->calls, 1);
        expect(requests[i], JOB_OK);
    }
}

/* A lane whose device has failed leaves work to the others; where all have, the model's first one does it. */
static void test_lanes_that_failed(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_lane_works(1, false);
    for (int i = 0; i < 4; i++) {
        expect(submit(1, 1, 10), JOB_OK);
        assert_int_equal(fake_batch_lane(i), 2);
    }
    fake_lane_works(2, false);
    for (int i = 4; i < 8; i++) {
        expect(submit(12, 1, 10), JOB_OK);
        assert_int_equal(fake_batch_lane(4 + 3 * (i - 4)), 1);
        assert_int_equal(fake_batch_lane(6 + 3 * (i - 4)), 1);
    }
    fake_lane_works(2, true);
    int64_t batches = fake_batches();
    expect(submit(1, 1, 10), JOB_OK);
    assert_int_equal(fake_batch_lane(batches), 2);
}

/* The lane that was woken for it finds its device failed, and the other one sleeps. */
static void test_lane_that_fails_before_it_runs(void **context)
{
    (void)context;
    open_lanes(4, 1);
    fake_gate_close_for(models[0]);
    struct request *first = submit(1, 1, 10);
    fake_wait_for_batches(1);
    struct request *second = submit(1, 1, 20), *third = submit(1, 1, 30);
    fake_wait_for_batches(2);
    fake_lane_works(fake_batch_lane(0), false);
    fake_lane_works(fake_batch_lane(1), false);
    fake_gate_open();
    expect(first, JOB_OK);
    expect(second, JOB_OK);
    expect(third, JOB_OK);
    assert_int_equal(fake_batch_lane(2), 1);
}

/* The one lane that still ran fails: the one that stands for the CPU sleeps, and is woken for what waits. */
static void test_last_lane_that_fails(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_lane_works(1, false);
    fake_gate_close();
    struct request *first = submit(1, 1, 10);
    fake_wait_for_batches(1);
    struct request *second = submit(1, 1, 20);
    fake_lane_works(2, false);
    fake_gate_open();
    expect(first, JOB_OK);
    expect(second, JOB_OK);
    assert_int_equal(fake_batch_lane(0), 2);
    assert_int_equal(fake_batch_lane(1), 1);
}

static void *close_batcher(void *unused)
{
    batcher_close(batcher);
    return unused;
}

/* What waits at the end is run by all lanes: one that ended since its device was away could be missing later. */
static void test_close_with_failed_lanes(void **context)
{
    (void)context;
    pthread_t closer;
    open_lanes(4, 8);
    fake_lane_works(1, false);
    fake_gate_close();
    struct request *large = submit(12, 1, 10);
    fake_wait_for_batches(1);
    assert_int_equal(pthread_create(&closer, NULL, close_batcher, NULL), 0);
    fake_wait_for_batches(2);
    fake_lane_works(2, false);
    fake_gate_open();
    pthread_join(closer, NULL);
    batcher = NULL;
    assert_int_equal(fake_batch_lane(1), 1);
    assert_int_equal(large->calls, 1);
    expect(large, JOB_OK);
}

/* ---- Many submitters ---- */

#define SUBMITTERS 6
#define JOBS_EACH 300

struct submitter {
    pthread_t thread;
    unsigned seed;
    struct request *requests[JOBS_EACH];
    enum submit_status statuses[JOBS_EACH];
};

static int random_below(struct submitter *submitter, int bound)
{
    return rand_r(&submitter->seed) % bound;
}

static struct request *random_request(struct submitter *submitter)
{
    int64_t n_items = random_below(submitter, 8) ? 1 + random_below(submitter, 3) : MAX_ITEMS;
    struct request *request =
        request_new(n_items, 1 + random_below(submitter, MAX_LENGTH), random_below(submitter, 900));
    request->unwanted = random_below(submitter, 16) == 0;
    if (random_below(submitter, 16) == 0)
        request->ids[random_below(submitter, (int)n_items)][0] = FAKE_ID_NAN;
    if (random_below(submitter, 64) == 0)
        request->ids[0][0] = FAKE_ID_FAIL;
    if (random_below(submitter, 4) == 0)
        request->job.deadline_ns = now_ns() + random_below(submitter, 2000000) - 100000;
    return request;
}

static void *submit_many(void *argument)
{
    struct submitter *submitter = argument;
    for (int i = 0; i < JOBS_EACH; i++) {
        struct request *request = submitter->requests[i] = random_request(submitter);
        submitter->statuses[i] = batcher_submit(batcher, random_below(submitter, MODELS), &request->job);
        int earlier = random_below(submitter, i + 1);
        if (random_below(submitter, 8) == 0 && submitter->statuses[earlier] == SUBMIT_OK)
            batcher_cancel(batcher, &submitter->requests[earlier]->job);
        if (random_below(submitter, 8) == 0 && submitter->statuses[i] == SUBMIT_OK)
            wait_done(request);
    }
    return NULL;
}

static void check_submitter(struct submitter *submitter, int64_t counts[5])
{
    for (int i = 0; i < JOBS_EACH; i++) {
        struct request *request = submitter->requests[i];
        assert_int_equal(request->calls, submitter->statuses[i] == SUBMIT_OK);
        if (request->calls) {
            counts[request->job.status]++;
            expect(request, request->job.status);
        } else {
            free(request);
        }
    }
}

static void run_many_submitters(void)
{
    static struct submitter submitters[SUBMITTERS];
    const char *given = getenv("LINFORMERD_TEST_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)now_ns();
    printf("# LINFORMERD_TEST_SEED=%u\n", seed);
    open_bounded(48, 12, 2000, 500, NULL);
    for (int i = 0; i < SUBMITTERS; i++) {
        submitters[i].seed = seed + (unsigned)i;
        assert_int_equal(pthread_create(&submitters[i].thread, NULL, submit_many, &submitters[i]), 0);
    }
    for (int i = 0; i < SUBMITTERS; i++)
        pthread_join(submitters[i].thread, NULL);
    batcher_close(batcher);
    batcher = NULL;
    int64_t counts[5] = {0};
    for (int i = 0; i < SUBMITTERS; i++)
        check_submitter(&submitters[i], counts);
    printf("# ok %lld, expired %lld, cancelled %lld, failed %lld, not finite %lld\n", (long long)counts[0],
           (long long)counts[1], (long long)counts[2], (long long)counts[3], (long long)counts[4]);
    assert_true(counts[JOB_OK] > 0);
}

static void test_many_submitters(void **context)
{
    (void)context;
    run_many_submitters();
}

static void *break_lanes(void *argument)
{
    atomic_bool *stop = argument;
    for (unsigned seed = 1; !atomic_load(stop); sched_yield())
        fake_lane_works(rand_r(&seed) % 5, rand_r(&seed) % 2);
    return NULL;
}

/* While their devices fail and come back at any moment: a job that nobody is woken for would hang. */
static void test_many_submitters_and_failing_lanes(void **context)
{
    (void)context;
    pthread_t breaker;
    atomic_bool stop = false;
    fake_lanes(models[0], 1, 4);
    fake_lanes(models[1], 1, 2);
    assert_int_equal(pthread_create(&breaker, NULL, break_lanes, &stop), 0);
    run_many_submitters();
    atomic_store(&stop, true);
    pthread_join(breaker, NULL);
}

static void test_many_submitters_and_lanes(void **context)
{
    (void)context;
    fake_lanes(models[0], 1, 4);
    fake_lanes(models[1], 1, 2);
    run_many_submitters();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_one_job),
        TEST(test_arrival_order),
        TEST(test_waiting_jobs_share_a_batch),
        TEST(test_long_item_is_a_batch_of_its_own),
        TEST(test_large_job_is_split),
        TEST(test_small_job_passes_the_large_one_that_runs),
        TEST(test_large_jobs_take_turns),
        TEST(test_job_that_filled_a_rest_keeps_its_place),
        TEST(test_models_take_turns),
        TEST(test_expired_job_is_answered_during_a_batch),
        TEST(test_deadline_between_batches_of_a_job),
        TEST(test_deadline_after_all_was_started),
        TEST(test_cancel_of_a_waiting_job),
        TEST(test_cancel_of_a_running_job),
        TEST(test_unwanted_jobs_are_not_run),
        TEST(test_batch_of_unwanted_jobs_only),
        TEST(test_full_queue),
        TEST(test_job_beyond_the_bounds_enters_an_empty_queue),
        TEST(test_drain),
        TEST(test_close_without_work),
        TEST(test_failed_batch),
        TEST(test_result_that_is_not_finite),
        TEST(test_flaw_in_a_split_job),
        TEST(test_batches_are_counted),
        TEST(test_two_batches_in_flight),
        TEST(test_split_job_runs_on_all_lanes),
        TEST(test_split_job_ends_with_its_last_batch),
        TEST(test_small_job_passes_a_large_one_on_all_lanes),
        TEST(test_stuck_lanes_lose_nothing_of_others),
        TEST(test_close_waits_for_all_lanes),
        TEST(test_lanes_that_failed),
        TEST(test_lane_that_fails_before_it_runs),
        TEST(test_last_lane_that_fails),
        TEST(test_close_with_failed_lanes),
        TEST(test_many_submitters),
        TEST(test_many_submitters_and_lanes),
        TEST(test_many_submitters_and_failing_lanes),
    };
    log_configure(LOG_FORMAT_TEXT, LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("batcher", tests, NULL, NULL);
}
