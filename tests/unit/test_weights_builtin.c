#include "weights/weights.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void open_and_close(enum weights_builtin_index index)
{
    struct weights_builtin builtin = weights_builtin(index);
    struct model_config config;
    struct error error = {""};
    if (model_config_parse(builtin.config, builtin.config_length, "built-in config.json", &config, &error) != 0)
        fail_msg("%s", error.message);
    assert_non_null(config.name);
    assert_int_equal(config.tokenizer, TOKENIZER_DEFAULT);
    assert_non_null(builtin.tokenizer); /* the model must have a tokenizer, because it must accept texts */
    model_config_free(&config);

    struct weights *weights;
    if (weights_open_memory(builtin.model, builtin.model_size, "built-in model", &weights, &error) != 0)
        fail_msg("%s", error.message);
    assert_true(weights_count(weights) > 0);
    for (size_t i = 0; i < weights_count(weights); i++)
        assert_true(weights_at(weights, i)->dtype <= WEIGHTS_BF16);
    weights_close(weights);
}

static void the_binary_contains_two_models(void **state)
{
    (void)state;
    open_and_close(WEIGHTS_BUILTIN);
    open_and_close(WEIGHTS_BUILTIN_WRITER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_binary_contains_two_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
