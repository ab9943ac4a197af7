/* Tests of the batcher with several lanes of the fake engine, whose devices fail and work again. In some tests, many
 * threads submit jobs at the same time. The tests do not sleep (test_batcher_fake.c). LINFORMERD_TEST_SEED repeats a
 * random run. */
#include "server/common/clock.h"
#include "server/common/log.h"
#include "tests/fake_engine.h"
#include "tests/unit/requests.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- Lanes ---- */

/* Models 0 and 2 share two lanes. Model 1 has its own lane. */
static void open_lanes(int64_t tokens, int64_t requests)
{
    fake_lanes(models[0], 1, 2);
    fake_lanes(models[1], 0, 1);
    fake_lanes(models[2], 1, 2);
    open_with(tokens, requests);
}

static void test_two_lanes_run_two_batches_at_once(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_gate_close();
    struct job_request *first = submit(1, 1, 10);
    fake_wait_for_batches(1);
    struct job_request *second = submit(1, 1, 20);
    fake_wait_for_batches(2);
    struct job_request *third = submit(1, 1, 30), *fourth = submit(1, 1, 40);
    expect_depth(2, 2);
    fake_gate_open();
    expect(first, JOB_OK);
    expect(second, JOB_OK);
    expect(third, JOB_OK);
    expect(fourth, JOB_OK);
}

/* No job is submitted after the large job. The lane that runs the first items of this job must wake the other lane. */
static void test_split_job_runs_on_all_lanes(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_gate_close();
    struct job_request *large = submit(12, 1, 10);
    fake_wait_for_batches(2);
    expect_depth(4, 4);
    fake_gate_open();
    expect(large, JOB_OK);
    assert_int_equal(fake_batches(), 3);
}

/* The job must not end when one lane has finished its batch, because the other lane still writes into the job's
 * memory. */
static void test_split_job_ends_with_its_last_batch(void **context)
{
    (void)context;
    open_lanes(4, 8);
    for (int round = 0; round < 2; round++) {
        int64_t batches = fake_batches();
        fake_gate_close_for(models[0]);
        struct job_request *large = submit(round == 1 ? 12 : 8, 1, 10);
        fake_wait_for_batches(batches + 2);
        large->unwanted = round == 1; /* in the second round, the items of the third batch are dropped */
        fake_gate_pass();
        expect(submit_to(2, request_new(1, 1, 90)), JOB_OK); /* runs on the lane that has finished */
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
    struct job_request *large = submit(16, 1, 10);
    fake_wait_for_batches(2);
    struct job_request *small = submit(1, 1, 90);
    fake_gate_pass();
    fake_wait_for_batches(3);
    expect_batch(2, 90, 18, 19, 20, -1);
    fake_gate_open();
    expect(small, JOB_OK);
    expect(large, JOB_OK);
}

static void test_a_stuck_lane_delays_no_other_model(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_gate_close_for(models[1]);
    struct job_request *stuck = submit_to(1, request_new(1, 1, 10));
    fake_wait_for_batches(1);
    struct job_request *waiting = submit_to(1, request_new(1, 1, 11));
    for (int i = 0; i < 20; i++) /* model 1 has its own lane, so its stuck lane blocks no other model */
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
    for (int i = 0; i < 20; i++) /* the other lane of models 0 and 2 runs these jobs */
        expect(submit_to(0, request_new(1, 1, 20)), JOB_OK);
    assert_int_equal(calls_of(stuck), 0);
    fake_gate_open();
    expect(stuck, JOB_OK);
}

/* The estimate for model 0 includes the jobs of model 2, because both models have the same lanes. It does not include
 * the jobs of model 1. A lane whose device has failed does not count. A token takes at least 0.1 s, so the estimates
 * are several seconds. */
static void test_retry_after_counts_models_on_the_same_lanes(void **context)
{
    (void)context;
    open_lanes(24, 24);
    fake_pace(100000000);
    expect(submit(1, 1, 10), JOB_OK);
    fake_gate_close();
    struct job_request *requests[7];
    for (int i = 0; i < 4; i++) /* each of the two lanes runs a batch, and the other jobs wait */
        requests[i] = submit(24, 1, 20);
    fake_wait_for_batches(3);
    int64_t alone = batcher_retry_after_s(batcher, 0);
    assert_true(alone > 1);
    requests[4] = submit_to(1, request_new(1, 1, 30)); /* this job runs on a lane that model 0 does not use */
    fake_wait_for_batches(4);
    requests[5] = submit_to(1, request_new(1, 1, 31)); /* this job waits for that lane */
    expect_depth(49, 49);
    assert_int_equal(batcher_retry_after_s(batcher, 0), alone);
    requests[6] = submit_to(2, request_new(1, 1, 40));
    int64_t shared = batcher_retry_after_s(batcher, 0);
    assert_true(shared > alone);
    fake_lane_works(fake_batch_lane(0), false); /* one of the two lanes of model 0 is left */
    assert_in_range(batcher_retry_after_s(batcher, 0), 2 * shared - 1, 2 * shared);
    fake_pace(0);
    fake_gate_open();
    for (int i = 0; i < 7; i++)
        expect(requests[i], JOB_OK);
}

static void test_close_waits_for_all_lanes(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_gate_close();
    struct job_request *requests[] = {submit(9, 1, 10), submit_to(1, request_new(9, 1, 30)),
                                      submit_to(2, request_new(9, 1, 50))};
    fake_wait_for_batches(3);
    fake_gate_open();
    batcher_close(batcher);
    batcher = NULL;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(requests[i]->calls, 1);
        expect(requests[i], JOB_OK);
    }
}

/* If the device of a lane fails, the model's other lanes run its batches. If all devices of a model have failed, the
 * model's first lane runs the batches. */
static void test_other_lanes_run_the_batches_of_a_failed_lane(void **context)
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

/* Both devices fail while each lane runs a batch and a third job waits. The model's first lane must run the third
 * job. */
static void test_the_first_lane_runs_a_job_when_both_lanes_fail(void **context)
{
    (void)context;
    open_lanes(4, 1);
    fake_gate_close_for(models[0]);
    struct job_request *first = submit(1, 1, 10);
    fake_wait_for_batches(1);
    struct job_request *second = submit(1, 1, 20), *third = submit(1, 1, 30);
    fake_wait_for_batches(2);
    fake_lane_works(fake_batch_lane(0), false);
    fake_lane_works(fake_batch_lane(1), false);
    fake_gate_open();
    expect(first, JOB_OK);
    expect(second, JOB_OK);
    expect(third, JOB_OK);
    assert_int_equal(fake_batch_lane(2), 1);
}

/* The device of the last working lane fails. The model's first lane must wake for the waiting jobs, and run them on the
 * CPU. */
static void test_the_first_lane_wakes_when_the_last_one_fails(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_lane_works(1, false);
    fake_gate_close();
    struct job_request *first = submit(1, 1, 10);
    fake_wait_for_batches(1);
    struct job_request *second = submit(1, 1, 20);
    fake_lane_works(2, false);
    fake_gate_open();
    expect(first, JOB_OK);
    expect(second, JOB_OK);
    assert_int_equal(fake_batch_lane(0), 2);
    assert_int_equal(fake_batch_lane(1), 1);
}

/* The device of a sleeping lane works again, while the other lanes are busy and no new job arrives. The lane must wake
 * for the waiting jobs, even if these jobs do not belong to model 0. */
static void test_a_lane_that_works_again_runs_waiting_jobs(void **context)
{
    (void)context;
    open_lanes(4, 8);
    fake_lane_works(2, false);
    fake_gate_close();
    struct job_request *large = submit_to(2, request_new(8, 1, 10));
    fake_wait_for_batches(1);
    batcher_wake(batcher); /* no device works again, so no lane starts a batch */
    assert_int_equal(fake_batches(), 1);
    fake_lane_works(2, true);
    batcher_wake(batcher);
    fake_wait_for_batches(2);
    assert_int_equal(fake_batch_lane(0), 1);
    assert_int_equal(fake_batch_lane(1), 2);
    fake_gate_open();
    expect(large, JOB_OK);
    batcher_wake(batcher); /* no job waits, so this call has no effect */
}

static void *close_batcher(void *unused)
{
    batcher_close(batcher);
    return unused;
}

/* While the batcher closes, its lanes run the waiting jobs. A lane whose device has failed must not end early, because
 * another device may fail later. */
static void test_closing_with_failed_lanes_runs_all_jobs(void **context)
{
    (void)context;
    pthread_t closer;
    open_lanes(4, 8);
    fake_lane_works(1, false);
    fake_gate_close();
    struct job_request *large = submit(12, 1, 10);
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
    struct job_request *requests[JOBS_EACH];
    enum submit_status statuses[JOBS_EACH];
};

static int random_below(struct submitter *submitter, int bound)
{
    return rand_r(&submitter->seed) % bound;
}

static struct job_request *random_request(struct submitter *submitter)
{
    int64_t n_items = random_below(submitter, 8) ? 1 + random_below(submitter, 3) : MAX_ITEMS;
    struct job_request *request =
        request_new(n_items, 1 + random_below(submitter, MAX_LENGTH), random_below(submitter, 900));
    request->unwanted = random_below(submitter, 16) == 0;
    if (random_below(submitter, 16) == 0)
        request->ids[random_below(submitter, (int)n_items)][0] = FAKE_ID_NAN;
    if (random_below(submitter, 64) == 0)
        request->ids[0][0] = FAKE_ID_FAIL;
    if (random_below(submitter, 4) == 0)
        request->job.deadline_ns = clock_ns() + random_below(submitter, 2000000) - 100000;
    return request;
}

static void *submit_many(void *argument)
{
    struct submitter *submitter = argument;
    for (int i = 0; i < JOBS_EACH; i++) {
        struct job_request *request = submitter->requests[i] = random_request(submitter);
        submitter->statuses[i] = batcher_submit(batcher, random_below(submitter, MODELS), &request->job);
        int earlier = random_below(submitter, i + 1);
        if (random_below(submitter, 8) == 0 && submitter->statuses[earlier] == SUBMIT_OK)
            submitter->requests[earlier]->unwanted = true;
        if (random_below(submitter, 8) == 0 && submitter->statuses[i] == SUBMIT_OK)
            wait_done(request);
    }
    return NULL;
}

static void check_submitter(struct submitter *submitter, int64_t counts[5])
{
    for (int i = 0; i < JOBS_EACH; i++) {
        struct job_request *request = submitter->requests[i];
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
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)clock_ns();
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

static void test_jobs_of_many_submitters_all_end(void **context)
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

/* Devices fail and work again at any moment. If no lane woke for a job, the test would hang. */
static void test_jobs_of_many_submitters_on_failing_lanes_all_end(void **context)
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

static void test_jobs_of_many_submitters_on_many_lanes_all_end(void **context)
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
        TEST(test_two_lanes_run_two_batches_at_once),
        TEST(test_split_job_runs_on_all_lanes),
        TEST(test_split_job_ends_with_its_last_batch),
        TEST(test_small_job_passes_a_large_one_on_all_lanes),
        TEST(test_a_stuck_lane_delays_no_other_model),
        TEST(test_retry_after_counts_models_on_the_same_lanes),
        TEST(test_close_waits_for_all_lanes),
        TEST(test_other_lanes_run_the_batches_of_a_failed_lane),
        TEST(test_the_first_lane_runs_a_job_when_both_lanes_fail),
        TEST(test_the_first_lane_wakes_when_the_last_one_fails),
        TEST(test_a_lane_that_works_again_runs_waiting_jobs),
        TEST(test_closing_with_failed_lanes_runs_all_jobs),
        TEST(test_jobs_of_many_submitters_all_end),
        TEST(test_jobs_of_many_submitters_on_many_lanes_all_end),
        TEST(test_jobs_of_many_submitters_on_failing_lanes_all_end),
    };
    log_configure(LOG_FORMAT_TEXT, LOG_LEVEL_ERROR);
    return cmocka_run_group_tests_name("lanes", tests, NULL, NULL);
}
