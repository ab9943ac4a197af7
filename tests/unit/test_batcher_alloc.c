/* The batcher opens, and adds a model, while each allocation fails in turn. */
#include "server/jobs/batcher.h"
#include "tests/fake_engine.c" /* replaces the engine */
#include "tests/unit/alloc_fail.h"

static struct model *models[3];

/* Opens a batcher with two models, and adds a third one. The first and the third model have slots for generation. */
static int serve(struct error *error)
{
    struct batcher_options options = {.max_batch_tokens = 64,
                                      .max_batch_requests = 8,
                                      .max_queue_tokens = 64,
                                      .max_queue_requests = 8,
                                      .max_generations = 3,
                                      .generation_percent = 50};
    struct batcher *batcher;
    int64_t index = -1;
    if (batcher_open(models, 2, &options, NULL, &batcher, error) != 0)
        return -1;
    int result = batcher_add(batcher, models[2], 2, &index, error);
    if (result == 0) {
        assert_int_equal(index, 2);
        batcher_remove(batcher, index);
    }
    batcher_close(batcher);
    return result;
}

static void serving_survives_each_failure(void **unused)
{
    (void)unused;
    struct model_info info = default_info;
    info.n_lanes = 2;
    info.n_slots = 3;
    for (int i = 0; i < 3; i++) {
        info.is_causal = i != 1;
        models[i] = fake_model(&info);
        assert_non_null(models[i]);
    }
    assert_true(alloc_fail_each(serve) > 8);
    for (int i = 0; i < 3; i++)
        model_close(models[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(serving_survives_each_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
