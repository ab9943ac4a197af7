/* Loading a model while each allocation in turn fails: reported, nothing left behind. */
#include "engine/engine.h"
#include "tests/unit/alloc_fail.h"

#define FOLDER "tests/reference/linear_attention_lm_linformer_reversible_shift"

static struct engine *engine;
static struct model_config config;
static struct weights *weights;

static int load_and_close(struct error *error)
{
    struct model *model;
    if (engine_load(engine, &config, weights, NULL, NULL, &model, error) != 0)
        return -1;
    model_close(model);
    return 0;
}

static void loading_survives_each_failure(void **state)
{
    (void)state;
    struct error error;
    struct engine_options options = {.device = "cpu", .dtype = "f32", .max_batch_tokens = 64, .max_batch_requests = 2};
    assert_int_equal(engine_open(&options, &engine, &error), 0);
    assert_int_equal(model_config_read(FOLDER "/config.json", &config, &error), 0);
    assert_int_equal(weights_open(FOLDER "/model.safetensors", &weights, &error), 0);
    assert_true(alloc_fail_each(load_and_close) > 50);
    weights_close(weights);
    model_config_free(&config);
    engine_close(engine);
}

int main(void)
{
    json_set_alloc_funcs(malloc, free);
    const struct CMUnitTest tests[] = {cmocka_unit_test(loading_survives_each_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
