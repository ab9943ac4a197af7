/* requests: jobs for a batcher over the fake engine, and what is expected of them. For programs named *_fake.c, whose
 * tests have setup() and teardown() and open the batcher themselves. */
#ifndef TESTS_UNIT_REQUESTS_H
#define TESTS_UNIT_REQUESTS_H

#include "server/jobs/batcher.h"
#include "tests/fake_engine.h"

#include <stdatomic.h>

#define MAX_ITEMS 24
#define MAX_LENGTH 8
#define MODELS 3
#define MANY 1000000

struct metrics;

extern struct model *models[MODELS];
extern struct batcher *batcher;

struct request {
    struct job job;
    struct engine_item items[MAX_ITEMS];
    int32_t ids[MAX_ITEMS][MAX_LENGTH];
    float hidden[MAX_ITEMS][MAX_LENGTH][FAKE_COLUMNS];
    int calls; /* of done; guarded by a lock: calls_of() */
    int place; /* in the order of all ends since the setup; likewise, read it after the end */
    atomic_bool unwanted;
};

/* Models with one lane each, and no batcher yet. The end: all is closed, and the engine saw no violation. */
int setup(void **context);
int teardown(void **context);

/* With bounds of a batch (and of a queue). */
void open_with(int64_t tokens, int64_t requests);
void open_bounded(int64_t tokens, int64_t requests, int64_t queue_tokens, int64_t queue_requests,
                  struct metrics *metrics);
void open_timed(int64_t tokens, int64_t requests, int64_t max_batch_ms);

/* Items of `length` rows each; every row of item i has the id first_id + i. `submit` is to model 0. */
struct request *request_new(int64_t n_items, int64_t length, int32_t first_id);
struct request *submit_to(int64_t model_index, struct request *request);
struct request *submit(int64_t n_items, int64_t length, int32_t first_id);

/* One request that stands at the gate, so that what is submitted next waits. */
struct request *hold(int32_t id);

void wait_done(const struct request *request);
int calls_of(const struct request *request);

/* Waits for it, expects that end, frees it. */
void expect(struct request *request, enum job_status status);

/* Such a request is refused. */
void expect_refused(int64_t n_items, int64_t length, enum submit_status status);

/* The engine's batch `index` held exactly these items, named by their first ids. -1 ends the list. */
void expect_batch(int64_t index, ...);
void expect_model(int64_t index, int64_t model_index);

/* So much waits. */
void expect_depth(int64_t requests, int64_t tokens);

#endif
