/* Tests of the batcher with the fake engine on one lane. test_lanes_fake.c tests several lanes. The tests do not sleep.
 * A test closes the gate of the fake engine, submits jobs that wait, and lets batches pass the gate. */
#include "server/common/clock.h"
#include "server/common/log.h"
#include "server/common/metrics.h"
#include "server/jobs/pace.h"
#include "tests/fake_engine.h"
#include "tests/unit/requests.h"

#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- Batches ---- */

static void test_a_job_receives_its_results(void **context)
{
    (void)context;
    open_with(100, 8);
    struct job_request *request = submit(3, 2, 10);
    wait_done(request);
    assert_int_equal(request->job.tokens, 6);
    expect(request, JOB_OK);
    expect_batch(0, 10, 11, 12, -1);
    expect_depth(0, 0);
}

static void test_jobs_run_in_the_order_of_arrival(void **context)
{
    (void)context;
    open_with(100, 1);
    struct job_request *requests[5] = {hold(1)};
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
    struct job_request *blocker = hold(1);
    struct job_request *requests[] = {submit(1, 4, 10), submit(1, 4, 20), submit(1, 4, 30),
                                      submit(1, 1, 40), submit(1, 1, 50), submit(1, 1, 60)};
    fake_gate_open();
    expect(blocker, JOB_OK);
    for (int i = 0; i < 6; i++)
        expect(requests[i], JOB_OK);
    expect_batch(1, 10, 20, 40, -1); /* item 30 would exceed the 10 tokens of the batch, so item 40 completes it */
    expect_batch(2, 30, 50, 60, -1);
}

static void test_long_item_is_a_batch_of_its_own(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *blocker = hold(1);
    struct job_request *before = submit(1, 1, 10), *longer = submit(2, 8, 20), *after = submit(1, 1, 30);
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
    struct job_request *blocker = hold(1), *large = submit(10, 1, 10);
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
    struct job_request *large = submit(12, 1, 10);
    fake_wait_for_batches(1);
    struct job_request *small = submit(1, 1, 90);
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
    struct job_request *blocker = hold(1);
    struct job_request *large = submit(9, 1, 10), *larger = submit(9, 1, 30), *small = submit(2, 1, 90);
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

/* If the jobs took turns, the first job would end as late as the last one. */
static void test_jobs_of_equal_size_end_one_after_another(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *blocker = hold(1);
    struct job_request *requests[] = {submit(9, 1, 10), submit(9, 1, 30), submit(9, 1, 50)};
    fake_gate_open();
    expect(blocker, JOB_OK);
    for (int i = 0; i < 3; i++)
        wait_done(requests[i]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(requests[i]->place, i + 1);
        expect(requests[i], JOB_OK);
    }
    expect_batch(2, 14, 15, 16, 17, -1);
    expect_batch(3, 18, 30, 31, 32, -1);
    expect_batch(4, 33, 34, 35, 36, -1);
}

/* A smaller job that arrived later passes the large job. A larger one does not. */
static void test_large_job_lets_only_smaller_jobs_pass(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *blocker = hold(1);
    struct job_request *large = submit(20, 1, 10), *less = submit(9, 1, 40), *more = submit(24, 1, 60);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(large, JOB_OK);
    expect(less, JOB_OK);
    expect(more, JOB_OK);
    expect_batch(1, 10, 11, 12, 13, -1);
    expect_batch(2, 40, 41, 42, 43, -1);
    expect_batch(3, 44, 45, 46, 47, -1);
    expect_batch(4, 48, 14, 15, 16, -1);
    expect_batch(5, 17, 18, 19, 20, -1);
}

static void test_a_split_job_keeps_its_place_in_the_queue(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *blocker = hold(1);
    struct job_request *requests[] = {submit(3, 1, 10), submit(3, 1, 20), submit(3, 1, 30)};
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
    struct job_request *requests[10] = {hold(1)};
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

static void pass_time_until(int64_t time_ns)
{
    while (clock_ns() < time_ns)
        sched_yield();
}

/* The expired jobs are answered while the previous batch still waits at the gate. */
static void test_expired_job_is_answered_during_a_batch(void **context)
{
    (void)context;
    open_with(100, 8);
    struct job_request *blocker = hold(1);
    struct job_request *patient = request_new(1, 1, 20), *late = request_new(2, 3, 30), *later = request_new(1, 1, 40);
    patient->job.deadline_ns = INT64_MAX;
    late->job.deadline_ns = 1;
    later->job.deadline_ns = clock_ns() + 2000000;
    later->job.kind = JOB_GENERATION;
    later->job.continues = true; /* like the second part of a long prompt */
    submit_to(1, patient);
    submit_to(1, late);
    submit_to(2, later);
    wait_done(late);
    assert_string_equal(late->job.error.message,
                        "the request's deadline passed when 0 of its 2 sequences had been started");
    expect(late, JOB_EXPIRED);
    wait_done(later);
    assert_string_equal(later->job.error.message,
                        "the request's deadline (--request-timeout-ms) passed before its first token");
    expect(later, JOB_EXPIRED);
    assert_int_equal(calls_of(blocker), 0);
    assert_int_equal(calls_of(patient), 0);
    expect_depth(1, 1);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(patient, JOB_OK);
    assert_int_equal(fake_batches(), 2);
}

/* Starts a job whose deadline passes while its first batch is at the gate. If the job expires before its first batch
 * starts, because the machine is slow, the function tries again with a later deadline. */
static struct job_request *start_and_let_expire(int64_t n_items)
{
    for (int64_t patience_ns = 10000000;; patience_ns *= 2) {
        fake_gate_close();
        int64_t batches = fake_batches();
        struct job_request *request = request_new(n_items, 1, 10);
        request->job.deadline_ns = clock_ns() + patience_ns;
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

static void test_a_split_job_expires_between_its_batches(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *request = start_and_let_expire(6);
    int64_t batches = fake_batches();
    assert_int_equal(calls_of(request), 0); /* a job does not end while one of its items runs */
    fake_gate_open();
    wait_done(request);
    assert_string_equal(request->job.error.message,
                        "the request's deadline passed when 4 of its 6 sequences had been started");
    assert_true(request->job.started_ns > 0);
    expect(request, JOB_EXPIRED);
    expect_depth(0, 0);
    assert_int_equal(fake_batches(), batches);
}

static void test_a_job_that_ends_after_its_deadline_has_expired(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *request = start_and_let_expire(4);
    fake_gate_open();
    wait_done(request);
    assert_string_equal(request->job.error.message,
                        "the request's deadline passed when 4 of its 4 sequences had been started");
    expect(request, JOB_EXPIRED);
}

/* When the client leaves, the batcher drops the items that have not run, so only one batch runs. */
static void test_a_job_that_becomes_unwanted_starts_no_more_batches(void **context)
{
    (void)context;
    open_with(4, 8);
    fake_gate_close();
    struct job_request *running = submit(9, 1, 10);
    fake_wait_for_batches(1);
    running->unwanted = true;
    assert_int_equal(calls_of(running), 0);
    fake_gate_open();
    expect(running, JOB_CANCELLED);
    assert_int_equal(fake_batches(), 1);
    expect_depth(0, 0);
}

static void test_unwanted_jobs_are_not_run(void **context)
{
    (void)context;
    open_with(100, 8);
    struct job_request *blocker = hold(1);
    struct job_request *requests[] = {request_new(2, 1, 10), request_new(2, 1, 20), request_new(1, 1, 30),
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

static void test_a_batch_of_only_unwanted_jobs_does_not_run(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *request = request_new(9, 1, 10);
    request->unwanted = true;
    submit_to(0, request);
    expect(request, JOB_CANCELLED);
    expect_depth(0, 0);
    assert_int_equal(fake_batches(), 0);
}

/* The first job of the next batch is unwanted, and is removed. The large job fills this batch, and keeps its place in
 * the queue for its remaining items. */
static void test_an_unwanted_first_job_does_not_change_the_order(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *blocker = hold(1);
    struct job_request *unwanted = request_new(1, 1, 10), *large = request_new(5, 1, 20),
                       *small = request_new(2, 1, 30);
    unwanted->unwanted = true;
    submit_to(0, unwanted);
    submit_to(0, large);
    submit_to(0, small);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(unwanted, JOB_CANCELLED);
    expect(large, JOB_OK);
    expect(small, JOB_OK);
    expect_batch(1, 20, 21, 22, -1);
    expect_batch(2, 23, 24, 30, 31, -1);
}

/* The batcher calls this function when it has formed the job's batch. The function returns only after the deadline
 * thread has removed the waiting items. */
static bool is_wanted_until_it_expires(struct job *job)
{
    (void)job;
    do {
        sched_yield();
    } while (batcher_depth(batcher, 0).requests > 0);
    return true;
}

static void test_a_job_that_expires_in_the_queue_does_not_run(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *late = request_new(6, 1, 10);
    late->job.wanted = is_wanted_until_it_expires;
    late->job.deadline_ns = clock_ns() + 10000000;
    submit_to(0, late);
    expect(late, JOB_EXPIRED);
    expect_depth(0, 0);
    assert_int_equal(fake_batches(), 0);
}

/* ---- Time. The fake engine takes at least 2 ms for a token. On a busy machine it takes longer, and a batch contains
 * fewer items. ---- */

#define TOKEN_NS 2000000
#define BATCH_MS 10
#define BATCH_TOKENS 5

/* Runs one batch of one token, so that the batcher can estimate times. */
static void run_one_token(void)
{
    fake_pace(TOKEN_NS);
    expect(submit(1, 1, 1), JOB_OK);
}

static void test_a_batch_takes_no_longer_than_stated(void **context)
{
    (void)context;
    open_timed(1000, 64, BATCH_MS);
    run_one_token();
    struct job_request *several = submit(12, 2, 10), *other = submit(12, 1, 100);
    expect(several, JOB_OK);
    expect(other, JOB_OK);
    int64_t batches = fake_batches(), items = 0;
    for (int64_t i = 1; i < batches; i++) {
        int32_t ids[64];
        int64_t n_items = fake_batch(i, NULL, ids, 64), tokens = 0;
        for (int64_t item = 0; item < n_items; item++)
            tokens += ids[item] < 100 ? 2 : 1;
        assert_true(tokens <= BATCH_TOKENS || n_items == 1);
        items += n_items;
    }
    assert_int_equal(items, 24);
    assert_true(batches >= 1 + 36 / BATCH_TOKENS);
}

/* A job that waits behind a large job runs in the next batch, or in the one after it. */
static void test_a_small_job_waits_for_short_batches(void **context)
{
    (void)context;
    open_timed(1000, 64, BATCH_MS);
    run_one_token();
    fake_gate_close();
    struct job_request *large = submit(12, 4, 10);
    fake_wait_for_batches(2);
    struct job_request *small = submit(1, 1, 90);
    fake_gate_open();
    expect(small, JOB_OK);
    expect(large, JOB_OK);
    int64_t at = 0;
    for (int64_t i = 2; i < fake_batches() && at == 0; i++) {
        int32_t ids[64];
        int64_t n_items = fake_batch(i, NULL, ids, 64);
        for (int64_t item = 0; item < n_items; item++)
            at = ids[item] == 90 ? i : at;
    }
    assert_in_range(at, 2, 3);
    assert_true(fake_batches() >= 2 + 2);
}

static void test_a_long_item_is_a_batch_however_long_it_takes(void **context)
{
    (void)context;
    open_timed(1000, 64, BATCH_MS);
    run_one_token();
    expect(submit(2, BATCH_TOKENS + 3, 10), JOB_OK);
    expect_batch(1, 10, -1);
    expect_batch(2, 11, -1);
}

/* The limit of an hour for a batch is never reached, so only the limits of tokens and items are effective. */
static void test_a_long_time_limit_makes_no_small_batches(void **context)
{
    (void)context;
    open_timed(4, 8, 3600000);
    fake_pace(TOKEN_NS);
    struct job_request *blocker = hold(1), *large = submit(8, 1, 10);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(large, JOB_OK);
    expect_batch(1, 10, 11, 12, 13, -1);
    expect_batch(2, 14, 15, 16, 17, -1);
}

static void test_the_measured_pace_follows_large_batches(void **context)
{
    (void)context;
    struct pace pace = {0};
    assert_true(pace_ns(&pace, 1e9) == 0);
    for (int i = 0; i < 100; i++) /* small batches, whose time is mostly overhead */
        pace_add(&pace, 1e6, 1000000);
    assert_float_equal(pace_ns(&pace, 1e6), 1e6, 1);
    pace_add(&pace, 1e9, 10000000);
    assert_true(pace_ns(&pace, 1e9) < 2 * 1.5e7);
    for (int i = 0; i < 20; i++)
        pace_add(&pace, 1e9, 10000000);
    assert_true(fabs(pace_ns(&pace, 1e9) / 1e7 - 1) < 0.01);
}

static void test_every_model_is_warmed_up(void **context)
{
    struct batcher_options options = {.max_batch_tokens = 4,
                                      .max_batch_requests = 8,
                                      .max_queue_tokens = MANY,
                                      .max_queue_requests = MANY,
                                      .generation_percent = 50};
    struct error error;
    (void)context;
    open_with(4, 8);
    assert_int_equal(fake_warm_ups(), MODELS);
    batcher_close(batcher);
    batcher = NULL;
    fake_cold_lane(0);
    assert_int_equal(batcher_open(models, MODELS, &options, NULL, &batcher, &error), -1);
    assert_string_equal(error.message, "warming up fake.LM: the fake device is cold");
    assert_null(batcher);
}

/* ---- Bounds ---- */

static void test_a_full_queue_refuses_jobs(void **context)
{
    (void)context;
    open_bounded(100, 8, 20, 4, NULL);
    struct job_request *blocker = hold(1), *first = submit(2, 5, 10), *third;
    expect_refused(3, 1, SUBMIT_FULL); /* five items would be in the queue */
    expect_refused(2, 6, SUBMIT_FULL); /* 22 tokens would be in the queue */
    struct job_request *second = submit(2, 5, 20);
    expect_refused(1, 1, SUBMIT_FULL);
    struct job_request *other = submit_to(1, request_new(4, 5, 40)); /* each model has its own queue */
    expect_depth(8, 40);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(first, JOB_OK);
    expect(second, JOB_OK);
    expect(other, JOB_OK);
    third = submit(2, 5, 30); /* the queue has room again */
    expect(third, JOB_OK);
    assert_in_range(batcher_retry_after_s(batcher, 0), 1, 1);
}

/* A token takes at least 0.1 s. The last argument of batcher_set_limits is the longest waiting time in ms. */
static void test_job_that_would_wait_too_long_is_refused(void **context)
{
    (void)context;
    open_with(4, 8);
    batcher_set_limits(batcher, MANY, MANY, 15000);
    fake_pace(100000000);
    expect(submit(1, 1, 10), JOB_OK);
    fake_pace(0);
    struct job_request *blocker = hold(1), *first = submit(1, 1, 20);
    struct job_request *second =
        submit(24, 8, 30); /* one token waits before this job, and 193 tokens wait before the next job */
    expect_refused(1, 1, SUBMIT_FULL);
    batcher_set_limits(batcher, MANY, MANY, 0);
    struct job_request *patient = submit(1, 1, 60);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(first, JOB_OK);
    expect(second, JOB_OK);
    expect(patient, JOB_OK);
}

static void test_a_job_beyond_the_limits_enters_an_empty_queue(void **context)
{
    (void)context;
    open_bounded(100, 8, 20, 4, NULL);
    struct job_request *blocker = hold(1), *large = submit(9, 8, 10);
    expect_refused(1, 1, SUBMIT_FULL);
    assert_true(batcher_retry_after_s(batcher, 0) >= 1);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(large, JOB_OK);
}

static void test_closing_runs_all_accepted_jobs(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *blocker = hold(1), *large = submit(9, 1, 10), *small = submit(1, 1, 90);
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

static void test_closing_without_jobs_ends(void **context)
{
    (void)context;
    open_with(4, 8);
    batcher_close(NULL);
}

/* ---- Trouble ---- */

static void test_a_failed_batch_fails_all_its_jobs(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *blocker = hold(1);
    struct job_request *mate = submit(1, 1, 10), *failing = submit(9, 1, FAKE_ID_FAIL), *next = submit(1, 1, 20);
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

/* One item of `bad` has a result that is not finite. Expects that `bad` fails with the message, and that the other jobs
 * of its batch succeed. */
static void expect_flaw(struct job_request *bad, const char *message)
{
    fake_gate_close();
    int64_t batches = fake_batches();
    struct job_request *blocker = submit(1, 1, 1);
    fake_wait_for_batches(batches + 1);
    struct job_request *before = submit(1, 2, 10), *after = submit(1, 2, 20);
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

static struct job_request *request_with_trouble(int32_t trouble)
{
    struct job_request *request = request_new(3, 8, 30);
    request->ids[2][5] = trouble;
    for (int i = 0; i < 3; i++)
        request->items[i].hidden = NULL;
    return request;
}

static void test_a_result_that_is_not_finite_fails_its_job(void **context)
{
    (void)context;
    static float output[3][8][FAKE_VOCABULARY], values[3][8][4];
    static int32_t columns[3][8][4];
    static const int32_t rows[] = {7, 0, 5};
    open_with(100, 8);

    struct job_request *request = request_new(3, 8, 30);
    request->ids[2][5] = FAKE_ID_NAN;
    expect_flaw(request, "sequence 2: row 5 of the last hidden state contains NaN or an infinity");

    request = request_with_trouble(FAKE_ID_INFINITE);
    for (int i = 0; i < 3; i++)
        request->items[i].pooled = request->hidden[i][0];
    expect_flaw(request, "sequence 2: row 0 of the pooled vector contains NaN or an infinity");

    request = request_with_trouble(FAKE_ID_NAN);
    for (int i = 0; i < 3; i++) {
        request->items[i].output = output[i][0];
        request->items[i].n_rows = 8;
    }
    expect_flaw(request, "sequence 2: row 5 of the output contains NaN or an infinity");

    request = request_with_trouble(FAKE_ID_INFINITE);
    for (int i = 0; i < 3; i++) {
        request->items[i].top_k = 4;
        request->items[i].top_columns = columns[i][0];
        request->items[i].top_values = values[i][0];
        request->items[i].rows = rows;
        request->items[i].n_rows = 3;
    }
    expect_flaw(request, "sequence 2: row 5 of the output's best values contains NaN or an infinity");
}

/* If the result of an item is not finite, the remaining items of its job do not run. */
static void test_a_result_that_is_not_finite_ends_a_split_job(void **context)
{
    (void)context;
    open_with(4, 8);
    struct job_request *bad = request_new(12, 1, 10);
    bad->ids[1][0] = FAKE_ID_INFINITE;
    submit_to(0, bad);
    expect(bad, JOB_NOT_FINITE);
    assert_int_equal(fake_batches(), 1);
}

static void test_batches_are_counted(void **context)
{
    (void)context;
    static const char *const names[MODELS] = {"a", "b", "c"};
    static const struct metrics_model_now models_now[MODELS];
    struct metrics *metrics = metrics_open(names, MODELS);
    open_bounded(4, 8, MANY, MANY, metrics);
    expect(submit(10, 1, 10), JOB_OK);
    expect(submit(1, 1, FAKE_ID_FAIL), JOB_FAILED);
    batcher_close(batcher);
    batcher = NULL;
    size_t length;
    char *text =
        metrics_text(metrics, &(struct metrics_now){.uptime_s = 1, .models = models_now, .n_models = MODELS}, &length);
    assert_non_null(strstr(text, "\nlinformerd_batch_items_count{model=\"a\"} 3\n"));
    assert_non_null(strstr(text, "\nlinformerd_batch_items_sum{model=\"a\"} 10\n"));
    assert_non_null(strstr(text, "\nlinformerd_batch_tokens_sum{model=\"a\"} 10\n"));
    free(text);
    metrics_close(metrics);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* An idle lane makes progress, and so does a lane that ends batches. A lane whose batch never ends makes none. */
static void test_a_batch_that_never_ends_is_no_progress(void **context)
{
    (void)context;
    open_with(100, 1);
    while (!batcher_progresses(batcher)) /* until the lane sleeps after its start */
        sched_yield();
    assert_true(batcher_progresses(batcher));
    struct job_request *requests[] = {hold(1), submit(1, 1, 2)};
    batcher_progresses(batcher); /* the beginning of a batch counts as progress once */
    assert_false(batcher_progresses(batcher));
    assert_false(batcher_progresses(batcher));
    fake_gate_pass();
    fake_wait_for_batches(2);
    assert_true(batcher_progresses(batcher));
    assert_false(batcher_progresses(batcher));
    fake_gate_open();
    for (int i = 0; i < 2; i++)
        expect(requests[i], JOB_OK);
    while (!batcher_progresses(batcher)) /* until the lane sleeps */
        sched_yield();
    assert_true(batcher_progresses(batcher));
}

static void test_new_limits_apply_to_later_jobs(void **context)
{
    (void)context;
    open_with(100, 1);
    struct job_request *blocker = hold(1), *waiting = submit(1, 5, 10);
    batcher_set_limits(batcher, 8, 100, 0);
    expect_refused(1, 5, SUBMIT_FULL);
    batcher_set_limits(batcher, 10, 100, 0);
    struct job_request *another = submit(1, 5, 20);
    batcher_set_limits(batcher, 100, 2, 0);
    expect_refused(1, 1, SUBMIT_FULL);
    fake_gate_open();
    expect(blocker, JOB_OK);
    expect(waiting, JOB_OK);
    expect(another, JOB_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_job_receives_its_results),
        TEST(test_a_batch_that_never_ends_is_no_progress),
        TEST(test_new_limits_apply_to_later_jobs),
        TEST(test_jobs_run_in_the_order_of_arrival),
        TEST(test_waiting_jobs_share_a_batch),
        TEST(test_long_item_is_a_batch_of_its_own),
        TEST(test_large_job_is_split),
        TEST(test_small_job_passes_the_large_one_that_runs),
        TEST(test_large_jobs_take_turns),
        TEST(test_jobs_of_equal_size_end_one_after_another),
        TEST(test_large_job_lets_only_smaller_jobs_pass),
        TEST(test_a_split_job_keeps_its_place_in_the_queue),
        TEST(test_models_take_turns),
        TEST(test_expired_job_is_answered_during_a_batch),
        TEST(test_a_split_job_expires_between_its_batches),
        TEST(test_a_job_that_ends_after_its_deadline_has_expired),
        TEST(test_a_job_that_becomes_unwanted_starts_no_more_batches),
        TEST(test_unwanted_jobs_are_not_run),
        TEST(test_a_batch_of_only_unwanted_jobs_does_not_run),
        TEST(test_an_unwanted_first_job_does_not_change_the_order),
        TEST(test_a_job_that_expires_in_the_queue_does_not_run),
        TEST(test_a_batch_takes_no_longer_than_stated),
        TEST(test_a_small_job_waits_for_short_batches),
        TEST(test_a_long_item_is_a_batch_however_long_it_takes),
        TEST(test_a_long_time_limit_makes_no_small_batches),
        TEST(test_the_measured_pace_follows_large_batches),
        TEST(test_every_model_is_warmed_up),
        TEST(test_a_full_queue_refuses_jobs),
        TEST(test_job_that_would_wait_too_long_is_refused),
        TEST(test_a_job_beyond_the_limits_enters_an_empty_queue),
        TEST(test_closing_runs_all_accepted_jobs),
        TEST(test_closing_without_jobs_ends),
        TEST(test_a_failed_batch_fails_all_its_jobs),
        TEST(test_a_result_that_is_not_finite_fails_its_job),
        TEST(test_a_result_that_is_not_finite_ends_a_split_job),
        TEST(test_batches_are_counted),
    };
    log_configure(LOG_FORMAT_TEXT, LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("batcher", tests, NULL, NULL);
}
