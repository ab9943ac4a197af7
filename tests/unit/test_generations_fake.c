/* Tests of the batcher with jobs of generation and other jobs at the same time, and of jobs that wait for slots. The
 * tests replace the clock, which only batches advance, except in tests of deadlines. The shares of the time therefore
 * do not depend on the machine. */
#include "server/common/clock.h"
#include "server/jobs/lane_time.h"
#include "tests/fake_engine.h"
#include "tests/unit/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define GENERATION_ID 100 /* lowest id in jobs of generation. The ids of other jobs are lower */
#define BATCHES 3000      /* number of batches of a measurement */

static atomic_int_fast64_t now_ns = 1;
static atomic_bool real_clock;

int64_t clock_ns(void)
{
    struct timespec now;
    if (!real_clock)
        return now_ns;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* ---- Shares ---- */

/* The first two members are settings of a measurement. The others are sums over its batches. */
static struct {
    int64_t batch_ns, token_ns; /* time of a batch without its tokens, and time of a token */
    int64_t batches, ns, tokens[JOB_KINDS];
    int64_t steps, mixed; /* number of batches with items of generation, number of batches with items of both kinds */
} load;

static void count_batch(const struct model *model, const struct engine_item *items, int64_t n_items)
{
    int64_t tokens[JOB_KINDS] = {0};
    (void)model;
    for (int64_t i = 0; i < n_items; i++) {
        int32_t id = *(const int32_t *)items[i].inputs[0].data;
        tokens[id >= GENERATION_ID ? JOB_GENERATION : JOB_OTHER] += items[i].inputs[0].length;
    }
    int64_t ns = load.batch_ns + load.token_ns * (tokens[JOB_OTHER] + tokens[JOB_GENERATION]);
    now_ns += ns;
    if (load.batches >= BATCHES) /* the last batches do not count, because jobs are no longer submitted again */
        return;
    load.batches++;
    load.ns += ns;
    load.tokens[JOB_OTHER] += tokens[JOB_OTHER];
    load.tokens[JOB_GENERATION] += tokens[JOB_GENERATION];
    load.steps += tokens[JOB_GENERATION] > 0;
    load.mixed += tokens[JOB_GENERATION] > 0 && tokens[JOB_OTHER] > 0;
}

/* Called when a job ends. Submits the job again, until the measurement has all its batches. */
static void come_again(struct job *job)
{
    struct job_request *request = job->context;
    void (*done)(struct job * job) = request->done;
    job->continues = job->kind == JOB_GENERATION;
    if (load.batches >= BATCHES)
        done(job);
    else
        assert_int_equal(batcher_submit(batcher, request->model_index, job), SUBMIT_OK);
}

static struct job_request *constant(enum job_kind kind, int64_t model_index, int64_t n_items, int64_t length)
{
    struct job_request *request = request_new(n_items, length, kind == JOB_GENERATION ? GENERATION_ID : 10);
    request->done = request->job.done;
    request->model_index = model_index;
    request->job.done = come_again;
    request->job.kind = kind;
    return submit_to(model_index, request);
}

/* Tokens per nanosecond for each kind. */
struct rates {
    double of[JOB_KINDS];
};

#define SEQUENCES 6
#define OTHERS 3

/* Runs a measurement of BATCHES batches. A job of generation has one item of one token. Another job has items of 8
 * tokens. */
static struct rates measure(int64_t percent, bool generation, bool others, int64_t others_model)
{
    struct job_request *requests[SEQUENCES + OTHERS];
    int count = 0;
    struct batcher_options options = {.max_batch_tokens = 64,
                                      .max_batch_requests = 64,
                                      .max_queue_tokens = MANY,
                                      .max_queue_requests = MANY,
                                      .generation_percent = percent};
    struct error error;
    load.batches = load.ns = load.steps = load.mixed = load.tokens[JOB_OTHER] = load.tokens[JOB_GENERATION] = 0;
    fake_reset();
    fake_limits(64, 64);
    assert_int_equal(batcher_open(models, MODELS, &options, NULL, &batcher, &error), 0);
    fake_on_batch(count_batch);
    struct job_request *blocker = hold(1);
    for (int i = 0; generation && i < SEQUENCES; i++)
        requests[count++] = constant(JOB_GENERATION, 0, 1, 1);
    for (int i = 0; others && i < OTHERS; i++)
        requests[count++] = constant(JOB_OTHER, others_model, MAX_ITEMS, 8);
    fake_gate_open();
    expect(blocker, JOB_OK);
    for (int i = 0; i < count; i++)
        expect(requests[i], JOB_OK);
    batcher_close(batcher);
    batcher = NULL;
    return (struct rates){
        {(double)load.tokens[JOB_OTHER] / (double)load.ns, (double)load.tokens[JOB_GENERATION] / (double)load.ns}};
}

/* Each kind of jobs must reach at least its share of the rate that it reaches alone. If only the tokens of a batch take
 * time, the kind must not exceed its share. Both rules have a tolerance of 3 % of the share, plus 0.002. */
static void expect_shares(int64_t batch_ns, int64_t others_model)
{
    static const int64_t percents[] = {10, 50, 75, 99};
    load.batch_ns = batch_ns;
    load.token_ns = 1000;
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        double share[JOB_KINDS] = {1 - (double)percents[i] / 100, (double)percents[i] / 100};
        struct rates generation = measure(percents[i], true, false, others_model);
        assert_int_equal(load.steps, load.batches - 1); /* all batches except that of the blocker */
        struct rates others = measure(percents[i], false, true, others_model);
        assert_int_equal(load.steps, 0);
        struct rates both = measure(percents[i], true, true, others_model);
        double part[JOB_KINDS] = {both.of[JOB_OTHER] / others.of[JOB_OTHER],
                                  both.of[JOB_GENERATION] / generation.of[JOB_GENERATION]};
        for (int kind = 0; kind < JOB_KINDS; kind++)
            if (part[kind] < 0.97 * share[kind] - 0.002 || (batch_ns == 0 && part[kind] > 1.03 * share[kind] + 0.002))
                fail_msg("%s: share %g, found %g", kind == JOB_GENERATION ? "generation" : "others", share[kind],
                         part[kind]);
        if (others_model == 0 && percents[i] == 10) /* batches of generation have room for items of 8 tokens */
            assert_true(load.mixed > load.batches / 2);
    }
}

static void test_generation_and_other_jobs_get_their_shares_of_time(void **context)
{
    (void)context;
    expect_shares(0, 0);
}

/* As on real devices, a step of generation takes longer than its few tokens suggest, because it reads all weights. */
static void test_costly_steps_do_not_change_the_share(void **context)
{
    (void)context;
    expect_shares(50000, 0);
}

static void test_generation_has_its_share_with_two_models(void **context)
{
    (void)context;
    expect_shares(0, 1);
    expect_shares(50000, 1);
}

/* A kind of jobs cannot save up unused time. After generation had the lane alone, the other jobs do not get all of the
 * time. */
static void test_idle_time_does_not_add_to_a_later_share(void **context)
{
    (void)context;
    struct lane_time time = {0};
    lane_time_pay(&time, JOB_GENERATION, 1e12, 50);
    assert_int_equal(lane_time_turn(&time, true, false), JOB_GENERATION);
    assert_true(time.ahead == 0);
    lane_time_pay(&time, JOB_OTHER, 1e12, 50);
    assert_int_equal(lane_time_turn(&time, false, true), JOB_OTHER);
    assert_true(time.ahead == 0);
    assert_int_equal(lane_time_turn(&time, true, true), JOB_OTHER);
    lane_time_pay(&time, JOB_OTHER, 1, 50);
    assert_int_equal(lane_time_turn(&time, true, true), JOB_GENERATION);
}

/* ---- Slots ---- */

/* Opens a batcher with 3 slots for model 0. If n_devices is 2, the engine's lane 1 is on the first device, and lane 2
 * on the second. Model 0 then has both lanes, model 1 only lane 1, and model 2 only lane 2. */
static void open_slots_on(int n_devices)
{
    struct model_info info = *model_info(models[0]);
    info.is_causal = true;
    info.n_slots = 3;
    info.n_devices = n_devices;
    struct model *causal = fake_model(&info);
    model_close(models[0]);
    models[0] = causal;
    for (int i = 0; n_devices > 1 && i < MODELS; i++)
        fake_lanes(models[i], i == 0 ? 1 : i, i == 0 ? 2 : 1);
    struct batcher_options options = {.max_batch_tokens = 64,
                                      .max_batch_requests = 64,
                                      .max_queue_tokens = MANY,
                                      .max_queue_requests = 6,
                                      .max_generations = 3,
                                      .generation_percent = 50};
    struct error error;
    assert_int_equal(batcher_open(models, MODELS, &options, NULL, &batcher, &error), 0);
}

static void open_slots(void)
{
    open_slots_on(1);
}

static struct job_request *new_sequences(int64_t count, int32_t id)
{
    struct job_request *request = request_new(count, 1, id);
    request->job.kind = JOB_GENERATION;
    request->job.n_slots = count;
    request->job.slots = request->slots;
    for (int64_t i = 0; i < count; i++)
        request->items[i].slot = 1;
    return request;
}

static void give_slots(const struct job_request *request)
{
    assert_true(request->job.has_slots);
    batcher_give_slots(batcher, 0, request->job.n_slots, request->slots);
}

/* Expects that the request has consecutive slots, beginning with `first`. */
static void expect_slots(const struct job_request *request, int64_t first)
{
    assert_true(request->job.has_slots);
    for (int64_t i = 0; i < request->job.n_slots; i++) {
        assert_int_equal(request->slots[i], first + i);
        assert_int_equal(request->items[i].slot, first + i);
    }
}

static void expect_waiting_for_slots(int64_t used, int64_t waiting_for_slots)
{
    struct batcher_depth depth = batcher_depth(batcher, 0);
    assert_int_equal(depth.slots, 3);
    assert_int_equal(depth.slots_used, used);
    assert_int_equal(depth.waiting_for_slots, waiting_for_slots);
}

/* One slot is free all the time, but the third request, which needs one slot, does not overtake the second, which needs
 * two. */
static void test_slots_go_to_the_first_waiting_request(void **context)
{
    (void)context;
    open_slots();
    struct job_request *first = submit_to(0, new_sequences(2, 10));
    wait_done(first);
    expect_slots(first, 1);
    struct job_request *second = submit_to(0, new_sequences(2, 20)), *third = submit_to(0, new_sequences(1, 30));
    struct job_request *other = submit(1, 1, 40);
    wait_done(other); /* jobs without slots do not wait */
    expect_waiting_for_slots(2, 3);
    assert_int_equal(calls_of(second), 0);
    give_slots(first);
    wait_done(second);
    wait_done(third);
    expect_slots(second, 1);
    expect_slots(third, 3);
    expect_waiting_for_slots(3, 0);
    give_slots(second);
    give_slots(third);
    expect_waiting_for_slots(0, 0);
    expect(first, JOB_OK);
    expect(second, JOB_OK);
    expect(third, JOB_OK);
    expect(other, JOB_OK);
}

/* Requests for all slots and for a few slots, many times. All accepted requests are served. */
static void test_large_and_small_requests_are_all_served(void **context)
{
    (void)context;
    open_slots();
    for (int round = 0; round < 300; round++) {
        struct job_request *requests[5];
        int64_t counts[5] = {3, 1, 3, 2, 2};
        for (int i = 0; i < 5; i++)
            requests[i] = new_sequences(counts[(i + round) % 5], 10);
        for (int i = 0; i < 5; i++) /* a request is refused if the queue is full */
            if (batcher_submit(batcher, 0, &requests[i]->job) != SUBMIT_OK) {
                free(requests[i]);
                requests[i] = NULL;
            }
        for (int i = 0; i < 5; i++) {
            if (!requests[i])
                continue;
            wait_done(requests[i]);
            give_slots(requests[i]);
            expect(requests[i], JOB_OK);
        }
    }
    expect_waiting_for_slots(0, 0);
}

/* The queue has room for 6 items without a slot. Items with a slot do not count. */
static void test_requests_without_slots_fill_the_queue(void **context)
{
    (void)context;
    open_slots();
    struct job_request *first = submit_to(0, new_sequences(3, 10));
    wait_done(first);
    struct job_request *waiting[] = {submit_to(0, new_sequences(3, 20)), submit_to(0, new_sequences(3, 30))};
    struct job_request *refused = new_sequences(1, 40), *other = submit(6, 1, 50);
    assert_int_equal(batcher_submit(batcher, 0, &refused->job), SUBMIT_FULL);
    free(refused);
    expect(other, JOB_OK); /* other jobs have their own room in the queue */
    give_slots(first);
    wait_done(waiting[0]);
    give_slots(waiting[0]);
    wait_done(waiting[1]);
    give_slots(waiting[1]);
    expect(first, JOB_OK);
    expect(waiting[0], JOB_OK);
    expect(waiting[1], JOB_OK);
}

/* The second request expires or becomes unwanted. Then the third request gets the slot that is free. */
static void expect_next_after(enum job_status status)
{
    open_slots();
    real_clock = true;
    struct job_request *first = submit_to(0, new_sequences(2, 10));
    wait_done(first);
    struct job_request *second = new_sequences(2, 20);
    second->unwanted = status == JOB_CANCELLED;
    second->job.deadline_ns = status == JOB_EXPIRED ? clock_ns() + 50000000 : 0;
    submit_to(0, second);
    struct job_request *third = submit_to(0, new_sequences(1, 30));
    expect(second, status);
    wait_done(third);
    expect_waiting_for_slots(3, 0);
    give_slots(first);
    give_slots(third);
    expect(first, JOB_OK);
    expect(third, JOB_OK);
    real_clock = false;
}

static void test_a_request_that_expires_lets_others_pass(void **context)
{
    (void)context;
    expect_next_after(JOB_EXPIRED);
}

static void test_a_request_that_is_not_wanted_lets_others_pass(void **context)
{
    (void)context;
    expect_next_after(JOB_CANCELLED);
}

/* Called when a job ends. Gives back the slots of another request. */
static void give_and_end(struct job *job)
{
    struct job_request *request = job->context;
    give_slots(request->other);
    request->done(job);
}

static void test_closing_cancels_requests_that_wait_for_slots(void **context)
{
    (void)context;
    open_slots();
    struct job_request *first = submit_to(0, new_sequences(3, 10));
    wait_done(first);
    struct job_request *waiting = new_sequences(1, 20);
    waiting->other = first;
    waiting->done = waiting->job.done;
    waiting->job.done = give_and_end;
    submit_to(0, waiting);
    batcher_close(batcher);
    batcher = NULL;
    expect(waiting, JOB_CANCELLED);
    expect(first, JOB_OK);
}

/* ---- Several devices ---- */

/* Blocks the lane of a model with one lane: closes the gate for the model, and submits a job to it. */
static struct job_request *block(int64_t model_index)
{
    int64_t batches = fake_batches();
    fake_gate_close_for(models[model_index]);
    struct job_request *blocker = submit_to(model_index, request_new(1, 1, 90));
    fake_wait_for_batches(batches + 1);
    return blocker;
}

static void unblock(struct job_request *blocker)
{
    fake_gate_open();
    expect(blocker, JOB_OK);
}

/* Submits the next job of the sequences. */
static void go_on(struct job_request *request)
{
    request->calls = 0;
    request->job.continues = true;
    request->job.n_slots = 0;
    submit_to(0, request);
}

static void expect_latest_lane(int lane)
{
    assert_int_equal(fake_batch_lane(fake_batches() - 1), lane);
}

/* A sequence waits while the lane of its device is busy. Meanwhile the other lane runs other jobs. If the sequence's
 * device fails, the sequence moves to the other device, and stays there. */
static void test_sequences_stay_on_their_device(void **context)
{
    (void)context;
    open_slots_on(2);
    struct job_request *blocker = block(2), *sequence = submit_to(0, new_sequences(1, 10));
    wait_done(sequence);
    expect_latest_lane(1);
    unblock(blocker);

    blocker = block(1);
    go_on(sequence);
    expect(submit(1, 1, 40), JOB_OK);
    expect_latest_lane(2);
    assert_int_equal(calls_of(sequence), 0);
    unblock(blocker);
    wait_done(sequence);
    expect_latest_lane(1);

    blocker = block(1);
    fake_lane_works(1, false);
    go_on(sequence);
    wait_done(sequence);
    expect_latest_lane(2);
    fake_lane_works(1, true);
    batcher_wake(batcher);
    unblock(blocker);

    blocker = block(2);
    go_on(sequence);
    expect(submit(1, 1, 40), JOB_OK);
    expect_latest_lane(1);
    assert_int_equal(calls_of(sequence), 0);
    unblock(blocker);
    wait_done(sequence);
    expect_latest_lane(2);
    batcher_give_slots(batcher, 0, 1, sequence->slots);
    expect(sequence, JOB_OK);
}

/* A sequence waits for its device, and the device fails. The other device then runs the sequence. */
static void test_a_waiting_sequence_leaves_a_failing_device(void **context)
{
    (void)context;
    open_slots_on(2);
    struct job_request *blocker = block(2), *sequence = submit_to(0, new_sequences(1, 10));
    wait_done(sequence);
    unblock(blocker);
    blocker = block(1);
    go_on(sequence);
    fake_lane_works(1, false);
    fake_gate_open(); /* the lane ends its batch, and notices that its device has failed */
    expect(blocker, JOB_OK);
    wait_done(sequence);
    expect_latest_lane(2);
    batcher_give_slots(batcher, 0, 1, sequence->slots);
    expect(sequence, JOB_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_generation_and_other_jobs_get_their_shares_of_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_costly_steps_do_not_change_the_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_generation_has_its_share_with_two_models, setup, teardown),
        cmocka_unit_test_setup_teardown(test_idle_time_does_not_add_to_a_later_share, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slots_go_to_the_first_waiting_request, setup, teardown),
        cmocka_unit_test_setup_teardown(test_large_and_small_requests_are_all_served, setup, teardown),
        cmocka_unit_test_setup_teardown(test_requests_without_slots_fill_the_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_request_that_expires_lets_others_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_request_that_is_not_wanted_lets_others_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closing_cancels_requests_that_wait_for_slots, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sequences_stay_on_their_device, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_waiting_sequence_leaves_a_failing_device, setup, teardown),
    };
    return cmocka_run_group_tests_name("generations", tests, NULL, NULL);
}
