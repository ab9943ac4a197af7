/* Opens an engine and loads a model, while each allocation fails in turn. Each failure must be reported, and no memory
 * may leak. */
#include "engine/engine.h"
#include "tests/unit/alloc_fail.h"

#include <jansson.h>

#define FOLDER "tests/reference/linear_attention_lm_linformer_reversible_shift"

static struct engine *engine;
static struct model_config config;

static int load(struct model **model, struct error *error)
{
    struct weights *weights;
    if (weights_open(FOLDER "/model.safetensors", &weights, error) != 0)
        return -1;
    int status = engine_load(engine, &config, weights, NULL, NULL, model, error);
    weights_close(weights);
    return status;
}

/* If oneDNN lacks the memory for a weight, OpenBLAS multiplies the weight. The model loads, and cpu_notice contains a
 * message. The test counts this message as a failure. */
static int load_and_close(struct error *error)
{
    struct model *model;
    if (load(&model, error) != 0)
        return -1;
    const char *notice = model_info(model)->cpu_notice;
    int status = notice ? error_set(error, "%s", notice) : 0;
    model_close(model);
    return status;
}

static void loading_survives_each_failure(void **state)
{
    (void)state;
    assert_true(alloc_fail_each(load_and_close) > 50);
}

/* The first allocation of model_check or model_run would fail. If the batch succeeds, they allocate nothing. */
static void running_allocates_nothing(void **state)
{
    (void)state;
    struct error error;
    struct model *model;
    int32_t ids[40] = {1, 2, 3};
    float pooled[32], top_values[40 * 3];
    int32_t top_columns[40 * 3];
    struct engine_item item = {.inputs = {{ids, 40}}, .pooled = pooled, .n_rows = 40, .top_k = 3};
    item.top_columns = top_columns;
    item.top_values = top_values;
    assert_int_equal(load(&model, &error), 0);
    assert_int_equal(model_info(model)->hidden_columns, 32);
    alloc_fail.failed = false;
    alloc_fail.countdown = 1;
    int checked = model_check(model, &item, &error), ran = model_run(model, 0, &item, 1, &error);
    alloc_fail.countdown = 0;
    assert_int_equal(checked, 0);
    assert_int_equal(ran, 0);
    assert_false(alloc_fail.failed);
    model_close(model);
}

static int open_all(void **state)
{
    (void)state;
    struct error error;
    struct engine_options options = {
        .device = {DEVICE_CPU}, .dtype = DTYPE_F32, .max_batch_tokens = 64, .max_batch_requests = 2};
    return engine_open(&options, &engine, &error) == 0 && model_config_read(FOLDER "/config.json", &config, &error) == 0
               ? 0
               : -1;
}

static int close_all(void **state)
{
    (void)state;
    model_config_free(&config);
    engine_close(engine);
    return 0;
}

int main(void)
{
    json_set_alloc_funcs(malloc, free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_survives_each_failure),
        cmocka_unit_test(running_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
