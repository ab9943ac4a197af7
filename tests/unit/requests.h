/* requests: submits jobs to a batcher with the fake engine, and checks how the jobs end. The programs *_fake.c use it.
 * Each test uses setup() and teardown(), and opens the batcher itself. */
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

struct job_request {
    struct job job;
    struct engine_item items[MAX_ITEMS];
    int32_t ids[MAX_ITEMS][MAX_LENGTH];
    float hidden[MAX_ITEMS][MAX_LENGTH][FAKE_COLUMNS];
    int calls; /* number of calls of job.done. A lock guards it: read it with calls_of() */
    int place; /* position among the jobs in the order in which they ended since setup(), from 0. Read it after
                  wait_done */
    atomic_bool unwanted;

    /* For tests that replace job.done: */
    void (*done)(struct job *job); /* the original job.done */
    int64_t model_index;
    struct job_request *other;

    int64_t slots[MAX_ITEMS]; /* memory of job.slots */
};

/* setup creates models with one lane each, and opens no batcher. teardown closes everything, and expects that
 * fake_violations is 0. */
int setup(void **context);
int teardown(void **context);

/* These functions open the batcher. `tokens` and `requests` limit the tokens and the items of a batch. queue_tokens and
 * queue_requests limit the queue, and max_batch_ms limits the time of a batch. */
void open_with(int64_t tokens, int64_t requests);
void open_bounded(int64_t tokens, int64_t requests, int64_t queue_tokens, int64_t queue_requests,
                  struct metrics *metrics);
void open_timed(int64_t tokens, int64_t requests, int64_t max_batch_ms);

/* request_new creates a request with items of `length` rows each. Every row of item i has the id first_id + i.
 * submit_to submits a request. `submit` creates a request and submits it to model 0. */
struct job_request *request_new(int64_t n_items, int64_t length, int32_t first_id);
struct job_request *submit_to(int64_t model_index, struct job_request *request);
struct job_request *submit(int64_t n_items, int64_t length, int32_t first_id);

/* Closes the fake engine's gate (fake_engine.h), and submits a request whose batch stops at the gate. Later requests
 * therefore wait. */
struct job_request *hold(int32_t id);

void wait_done(const struct job_request *request);
int calls_of(const struct job_request *request);

/* Waits until the request ends, expects this status, and frees the request. */
void expect(struct job_request *request, enum job_status status);

/* Expects that the batcher refuses a request with n_items items of `length` rows, and returns `status`. */
void expect_refused(int64_t n_items, int64_t length, enum submit_status status);

/* expect_batch expects that batch `index` of the engine contained exactly the items with these first ids. -1 ends the
 * list. expect_model expects that the batch was a batch of the model `model_index`. */
void expect_batch(int64_t index, ...);
void expect_model(int64_t index, int64_t model_index);

/* Expects that all queues together contain this number of items and of tokens. */
void expect_depth(int64_t requests, int64_t tokens);

#endif
