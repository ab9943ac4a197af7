/* Tests of Keras' LinearMultiHeadAttention: which inputs are accepted or refused, and the messages. */
#include "engine/engine.h"
#include "tests/unit/loaded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES "keras_"

enum { QUERY, VALUE, KEY, ATTENTION_MASK };

static float numbers[4096];

static void give(struct engine_item *item, int input, int64_t length)
{
    item->inputs[input].data = numbers;
    item->inputs[input].length = length;
}

static void give_mask(struct engine_item *item, int64_t length, int64_t columns)
{
    give(item, ATTENTION_MASK, length);
    item->inputs[ATTENTION_MASK].columns = columns;
}

static void the_inputs_key_and_value_have_one_fixed_length(void **state)
{
    (void)state;
    struct loaded loaded;
    struct error error;
    struct engine_item item = {0};
    must(load(CASES, "default", NULL, &loaded, &error), &error);
    give(&item, QUERY, 5);
    assert_refused(&loaded, item, "\"value\"", "is missing");
    give(&item, VALUE, 14);
    must(model_check(loaded.model, &item, &error), &error);
    give(&item, KEY, 13);
    assert_refused(&loaded, item, "\"key\" has 13 rows", "exactly 14");
    give(&item, KEY, 14);
    must(model_check(loaded.model, &item, &error), &error);
    unload(&loaded);
}

static void without_projection_key_and_mask_must_be_as_long_as_value(void **state)
{
    (void)state;
    struct loaded loaded;
    struct error error;
    struct engine_item item = {0};
    must(load(CASES, "unprojected", NULL, &loaded, &error), &error);
    give(&item, QUERY, 5);
    give(&item, VALUE, 9);
    give_mask(&item, 5, 9);
    must(model_check(loaded.model, &item, &error), &error);
    give_mask(&item, 5, 8);
    assert_refused(&loaded, item, "\"attention_mask\" has 5 rows of 8", "of 9");
    give_mask(&item, 1, 9);
    must(model_check(loaded.model, &item, &error), &error);
    give_mask(&item, 2, 9);
    assert_refused(&loaded, item, "\"attention_mask\" has 2 rows of 9", "expected 5");
    give_mask(&item, 5, 9);
    give(&item, KEY, 8);
    assert_refused(&loaded, item, "\"key\" has 8 rows", "as many as \"value\"");
    unload(&loaded);
}

static void the_input_key_is_required_if_its_size_is_not_that_of_value(void **state)
{
    (void)state;
    struct loaded loaded;
    struct error error;
    struct engine_item item = {0};
    must(load(CASES, "separate_sizes", NULL, &loaded, &error), &error);
    give(&item, QUERY, 5);
    give(&item, VALUE, 14);
    assert_refused(&loaded, item, "\"key\"", "is missing");
    give(&item, KEY, 10);
    must(model_check(loaded.model, &item, &error), &error);
    unload(&loaded);
}

static void masks_are_booleans_for_all_heads(void **state)
{
    (void)state;
    struct loaded loaded;
    struct error error;
    struct engine_item item = {0};
    must(load(CASES, "attention_mask", NULL, &loaded, &error), &error);
    give(&item, QUERY, 5);
    give(&item, VALUE, 14);
    give_mask(&item, 5, 8);
    must(model_check(loaded.model, &item, &error), &error);
    item.inputs[ATTENTION_MASK].floats = true;
    assert_refused(&loaded, item, "\"attention_mask\" contains floats", "booleans");
    item.inputs[ATTENTION_MASK].floats = false;
    item.inputs[ATTENTION_MASK].n_masks = 3;
    assert_refused(&loaded, item, "\"attention_mask\" has 3 masks", "expected 1, not 3");
    unload(&loaded);
}

static void outputs_have_their_shapes(void **state)
{
    (void)state;
    struct loaded loaded;
    struct error error;
    struct engine_item item = {0};
    int64_t shape[ENGINE_MAX_RANK];
    must(load(CASES, "output_shapes", NULL, &loaded, &error), &error);
    give(&item, QUERY, 5);
    give(&item, VALUE, 14);
    assert_int_equal(model_output_shape(loaded.model, &item, 0, shape), 3);
    assert_true(shape[0] == 5 && shape[1] == 3 && shape[2] == 5);
    assert_int_equal(model_output_shape(loaded.model, &item, 1, shape), 3);
    assert_true(shape[0] == 3 && shape[1] == 5 && shape[2] == 8);
    assert_string_equal(model_info(loaded.model)->outputs[0], "attention_output");
    assert_string_equal(model_info(loaded.model)->outputs[1], "attention_scores");
    unload(&loaded);
}

static void an_embedding_in_front_accepts_ids(void **state)
{
    (void)state;
    struct loaded loaded;
    struct error error;
    int32_t ids[24] = {0};
    struct engine_item item = {.inputs[QUERY] = {.data = ids, .length = 24}};
    must(load(CASES, "embedding", NULL, &loaded, &error), &error);
    assert_int_equal(model_info(loaded.model)->n_inputs, 1);
    assert_int_equal(model_info(loaded.model)->vocabulary, 50);
    must(model_check(loaded.model, &item, &error), &error);
    ids[7] = 50;
    assert_refused(&loaded, item, "query[7]", "0 to 49");
    item.inputs[QUERY].length = 23;
    assert_refused(&loaded, item, "\"query\" has 23 rows", "exactly 24");
    unload(&loaded);
}

static void kwargs_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const char *const refused[][3] = {
        {"default", "{\"num_heads\": 3, \"key_dim\": 6, \"projection_dim\": 8}", "query/kernel"},
        {"default", "{\"num_heads\": 3, \"key_dim\": 7, \"projection_dim\": 9}", "key_transform/kernel"},
        {"default", "{\"num_heads\": 3, \"key_dim\": 7}", "has no counterpart"},
        {"default", "{\"num_heads\": 3, \"key_dim\": 7, \"projection_dim\": 8, \"use_bias\": false}",
         "has no counterpart"},
        {"default", "{\"num_heads\": 3, \"key_dim\": 7, \"projection_dim\": 8, \"attention_axes\": [1, 2]}",
         "attention_axes"},
        {"default", "{\"num_heads\": 3, \"key_dim\": 7, \"projection_dim\": 8, \"output_shape\": [2, 0]}",
         "output_shape"},
        {"default", "{\"num_heads\": 3, \"key_dim\": 7, \"projection_dim\": 8, \"output_shape\": [2, 2, 2, 2]}",
         "output_shape"},
        {"default", "{\"num_heads\": 3, \"key_dim\": 7, \"projection_dim\": 8, \"dtype\": \"float16\"}", "dtype"},
        {"unprojected", "{\"num_heads\": 3, \"key_dim\": 7, \"projection_dim\": 8}",
         "\"key_transform/kernel\" [length, projection_dim] is missing"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct loaded loaded = {0};
        struct error error = {""};
        assert_int_equal(load(CASES, refused[i][0], refused[i][1], &loaded, &error), -1);
        print_message("%s\n", error.message);
        assert_non_null(strstr(error.message, refused[i][2]));
        unload(&loaded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_inputs_key_and_value_have_one_fixed_length),
        cmocka_unit_test(without_projection_key_and_mask_must_be_as_long_as_value),
        cmocka_unit_test(the_input_key_is_required_if_its_size_is_not_that_of_value),
        cmocka_unit_test(masks_are_booleans_for_all_heads),
        cmocka_unit_test(outputs_have_their_shapes),
        cmocka_unit_test(an_embedding_in_front_accepts_ids),
        cmocka_unit_test(kwargs_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
