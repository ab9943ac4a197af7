/* Tests of the automatic values of settings, for given models and a given memory. */
#include "server/limits.h"
#include "tests/fake_engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define GIBIBYTE (INT64_C(1) << 30)
#define AROUND 65536

/* Returns the automatic payload_limit for two models: a model with these inputs, and the default fake model. */
static int64_t payload(const struct model_input *inputs, int n_inputs, int64_t memory)
{
    static const char *const outputs[] = {"output"};
    struct settings settings = {.max_batch_tokens = 0};
    struct model_info info = {
        .architecture = "fake.Model", .inputs = inputs, .n_inputs = n_inputs, .outputs = outputs, .n_outputs = 1};
    struct model *models[] = {fake_model(NULL), fake_model(&info)};
    limits_set_batch_tokens(&settings);
    limits_set_payload(&settings, models, 2, memory);
    model_close(models[0]);
    model_close(models[1]);
    return settings.payload_limit;
}

static void max_batch_tokens_has_a_default(void **state)
{
    (void)state;
    struct settings settings = {.max_batch_tokens = 0};
    assert_int_equal(limits_image_arena(&settings, 64 * GIBIBYTE), GIBIBYTE);
    assert_int_equal(limits_image_arena(&settings, GIBIBYTE), GIBIBYTE / 4);
    limits_set_batch_tokens(&settings);
    assert_int_equal(settings.max_batch_tokens, 16384);
    settings.max_batch_tokens = 7;
    limits_set_batch_tokens(&settings);
    assert_int_equal(settings.max_batch_tokens, 7);
    assert_int_equal(limits_image_arena(&settings, 64 * GIBIBYTE), 0);
}

static void the_default_payload_limit_fits_the_longest_input(void **state)
{
    (void)state;
    const struct model_input ids = {.name = "x", .kind = INPUT_IDS, .columns = 1, .max_length = 4096};
    const struct model_input rows = {.name = "x", .kind = INPUT_ROWS, .columns = 512, .max_length = 4096};
    const struct model_input many = {.name = "x", .kind = INPUT_ROWS, .columns = 64, .max_length = 1048576};
    const struct model_input two[] = {rows, rows};
    const struct model_input call = {
        .name = "query", .kind = INPUT_ROWS, .layout = LAYOUT_CALL, .columns = 512, .max_length = 10};
    assert_int_equal(payload(&ids, 1, 8 * GIBIBYTE), LIMITS_PAYLOAD);
    assert_int_equal(payload(&rows, 1, 8 * GIBIBYTE), 4096 * 512 * 25 + AROUND);
    assert_int_equal(payload(two, 2, 8 * GIBIBYTE), 2 * 4096 * 512 * 25 + AROUND);
    /* In this memory, the limit suffices for tensors as bytes (4 per number), but not for JSON (25 bytes per
     * number). */
    assert_int_equal(payload(&many, 1, 8 * GIBIBYTE), INT64_C(1048576) * 64 * 4 + AROUND);
    assert_int_equal(payload(&many, 1, 64 * GIBIBYTE), INT64_C(1048576) * 64 * 25 + AROUND);
    assert_int_equal(payload(&call, 1, 8 * GIBIBYTE), 16384 * 512 * 25 + AROUND);
}

static void memory_limits_the_payload(void **state)
{
    (void)state;
    const struct model_input many = {.name = "x", .kind = INPUT_ROWS, .columns = 64, .max_length = 1048576};
    const struct model_input endless = {
        .name = "x", .kind = INPUT_ROWS, .columns = INT64_MAX / 2, .max_length = INT64_MAX / 2};
    assert_int_equal(payload(&many, 1, GIBIBYTE), GIBIBYTE / 8);
    assert_int_equal(payload(&endless, 1, 8 * GIBIBYTE), GIBIBYTE);
    assert_int_equal(payload(&many, 1, GIBIBYTE / 16), LIMITS_PAYLOAD);
}

static void a_given_limit_is_kept(void **state)
{
    (void)state;
    struct settings settings = {.payload_limit = 1024, .max_batch_tokens = 16384};
    struct model *model = fake_model(NULL);
    limits_set_payload(&settings, &model, 1, 8 * GIBIBYTE);
    assert_int_equal(settings.payload_limit, 1024);
    model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(max_batch_tokens_has_a_default),
        cmocka_unit_test(the_default_payload_limit_fits_the_longest_input),
        cmocka_unit_test(memory_limits_the_payload),
        cmocka_unit_test(a_given_limit_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
