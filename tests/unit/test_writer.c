/* Tests of the built-in model that writes texts. It runs over a whole sequence at once. Its most probable ids must be
 * those that linear-attention-transformer computes with the same weights (weights/writer/examples.json). Their logits
 * may differ by 1e-4. */
#include "tests/unit/loaded.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define EXAMPLES "weights/writer/examples.json"

static struct loaded loaded;

static int load_model(void **state)
{
    (void)state;
    struct engine_options options = {.device = {DEVICE_CPU},
                                     .dtype = DTYPE_F32,
                                     .threads = 2,
                                     .max_batch_tokens = 1024,
                                     .max_batch_requests = 1,
                                     .max_slots = 1};
    loaded = load_builtin(WEIGHTS_BUILTIN_WRITER, &options);
    return 0;
}

static int unload_model(void **state)
{
    (void)state;
    unload(&loaded);
    return 0;
}

static void compare(const json_t *example)
{
    const json_t *given = json_object_get(example, "ids"), *expected = json_object_get(example, "new_ids");
    const json_t *logits = json_object_get(example, "logits");
    size_t n_given = json_array_size(given), count = json_array_size(expected);
    int32_t *ids = calloc(n_given + count, sizeof *ids), *rows = calloc(count, sizeof *rows);
    int32_t *found = calloc(count, sizeof *found);
    float *values = calloc(count, sizeof *values);
    assert_true(count >= 8);
    for (size_t i = 0; i < n_given + count; i++)
        ids[i] =
            (int32_t)json_integer_value(i < n_given ? json_array_get(given, i) : json_array_get(expected, i - n_given));
    for (size_t i = 0; i < count; i++)
        rows[i] = (int32_t)(n_given - 1 + i);
    struct engine_item item = {
        .rows = rows, .n_rows = (int64_t)count, .top_k = 1, .top_columns = found, .top_values = values};
    item.inputs[0].data = ids;
    item.inputs[0].length = (int64_t)(n_given + count - 1);
    struct error error;
    if (model_check(loaded.model, &item, &error) != 0 || model_run(loaded.model, 0, &item, 1, &error) != 0)
        fail_msg("%s", error.message);
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(found[i], ids[n_given + i]);
        most = fmax(most, fabs((double)values[i] - json_number_value(json_array_get(logits, i))));
    }
    print_message("%zu ids: logits off by %.1e\n", count, most);
    assert_true(most <= 1e-4);
    free(ids);
    free(rows);
    free(found);
    free(values);
}

static void the_writer_agrees_with_the_library(void **state)
{
    (void)state;
    json_error_t error;
    json_t *example, *examples = json_load_file(EXAMPLES, 0, &error);
    size_t i;
    if (!examples)
        fail_msg(EXAMPLES ":%d: %s", error.line, error.text);
    assert_int_equal(json_array_size(examples), 3);
    json_array_foreach (examples, i, example)
        compare(example);
    json_decref(examples);
}

static void the_writer_is_causal_and_resumes(void **state)
{
    (void)state;
    const struct model_info *info = model_info(loaded.model);
    assert_true(info->is_causal);
    assert_true(info->n_slots > 0);
    assert_int_equal(info->vocabulary, info->output_columns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_writer_agrees_with_the_library),
        cmocka_unit_test(the_writer_is_causal_and_resumes),
    };
    return cmocka_run_group_tests(tests, load_model, unload_model);
}
