#include "tests/unit/requests.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct model *models[MODELS];
struct batcher *batcher;

static pthread_mutex_t done_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t done_changed = PTHREAD_COND_INITIALIZER;
static int ends;

static void on_done(struct job *job)
{
    struct job_request *request = job->context;
    pthread_mutex_lock(&done_lock);
    request->calls++;
    request->place = ends++;
    pthread_cond_broadcast(&done_changed);
    pthread_mutex_unlock(&done_lock);
}

static bool is_wanted(struct job *job)
{
    return !((struct job_request *)job->context)->unwanted;
}

struct job_request *request_new(int64_t n_items, int64_t length, int32_t first_id)
{
    struct job_request *request = calloc(1, sizeof *request);
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

struct job_request *submit_to(int64_t model_index, struct job_request *request)
{
    assert_int_equal(batcher_submit(batcher, model_index, &request->job), SUBMIT_OK);
    return request;
}

struct job_request *submit(int64_t n_items, int64_t length, int32_t first_id)
{
    return submit_to(0, request_new(n_items, length, first_id));
}

void wait_done(const struct job_request *request)
{
    pthread_mutex_lock(&done_lock);
    while (request->calls == 0)
        pthread_cond_wait(&done_changed, &done_lock);
    pthread_mutex_unlock(&done_lock);
}

int calls_of(const struct job_request *request)
{
    pthread_mutex_lock(&done_lock);
    int calls = request->calls;
    pthread_mutex_unlock(&done_lock);
    return calls;
}

static void assert_results(const struct job_request *request)
{
    for (int64_t i = 0; i < request->job.n_items; i++)
        for (int64_t row = 0; row < request->items[i].inputs[0].length; row++)
            for (int64_t column = 0; column < FAKE_COLUMNS; column++)
                assert_true(request->hidden[i][row][column] == fake_hidden(request->ids[i][row], row, column));
}

void expect(struct job_request *request, enum job_status status)
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

void expect_batch(int64_t index, ...)
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

void expect_model(int64_t index, int64_t model_index)
{
    const struct model *model = NULL;
    assert_true(fake_batch(index, &model, NULL, 0) > 0);
    assert_ptr_equal(model, models[model_index]);
}

void expect_depth(int64_t requests, int64_t tokens)
{
    int64_t found_requests = 0, found_tokens = 0;
    for (int64_t i = 0; i < MODELS; i++) {
        struct batcher_depth depth = batcher_depth(batcher, i);
        found_requests += depth.requests;
        found_tokens += depth.tokens;
    }
    assert_int_equal(found_requests, requests);
    assert_int_equal(found_tokens, tokens);
}

void expect_refused(int64_t n_items, int64_t length, enum submit_status status)
{
    struct job_request *request = request_new(n_items, length, 500);
    assert_int_equal(batcher_submit(batcher, 0, &request->job), status);
    assert_int_equal(request->calls, 0);
    free(request);
}

/* ---- Opening ---- */

void open_bounded(int64_t tokens, int64_t requests, int64_t queue_tokens, int64_t queue_requests,
                  struct metrics *metrics)
{
    struct batcher_options options = {.max_batch_tokens = tokens,
                                      .max_batch_requests = requests,
                                      .max_queue_tokens = queue_tokens,
                                      .max_queue_requests = queue_requests,
                                      .generation_percent = 50};
    struct error error;
    fake_limits(tokens, requests);
    assert_int_equal(batcher_open(models, MODELS, &options, metrics, &batcher, &error), 0);
}

void open_timed(int64_t tokens, int64_t requests, int64_t max_batch_ms)
{
    struct batcher_options options = {.max_batch_tokens = tokens,
                                      .max_batch_requests = requests,
                                      .max_batch_ms = max_batch_ms,
                                      .max_queue_tokens = MANY,
                                      .max_queue_requests = MANY,
                                      .generation_percent = 50};
    struct error error;
    fake_limits(tokens, requests);
    assert_int_equal(batcher_open(models, MODELS, &options, NULL, &batcher, &error), 0);
}

void open_with(int64_t tokens, int64_t requests)
{
    open_bounded(tokens, requests, MANY, MANY, NULL);
}

struct job_request *hold(int32_t id)
{
    fake_gate_close();
    struct job_request *blocker = submit(1, 1, id);
    fake_wait_for_batches(1);
    return blocker;
}

int setup(void **context)
{
    (void)context;
    fake_reset();
    ends = 0;
    for (int i = 0; i < MODELS; i++)
        models[i] = fake_model(NULL);
    return 0;
}

int teardown(void **context)
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
