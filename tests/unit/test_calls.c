/* Tests of models whose items are whole calls of forward() with tensors (length, batch, features): which inputs are
 * accepted or refused, and the messages. */
#include "engine/engine.h"
#include "tests/unit/loaded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES "linear_multihead_attention_"
#define LENGTH 5
#define WIDTH 2

enum { QUERY, KEY, VALUE, KEY_PADDING_MASK, ATTN_MASK };

static float numbers[4096];

/* Makes a call with queries (LENGTH, WIDTH, 24), and with `keys` keys in each sequence. */
static struct engine_item call_of(int64_t keys)
{
    struct engine_item item = {0};
    for (int i = QUERY; i <= VALUE; i++) {
        item.inputs[i].data = numbers;
        item.inputs[i].length = i == QUERY ? LENGTH : keys;
        item.inputs[i].width = WIDTH;
    }
    return item;
}

static void give_mask(struct engine_item *item, int64_t n_masks, int64_t length, int64_t columns)
{
    item->inputs[ATTN_MASK].data = numbers;
    item->inputs[ATTN_MASK].n_masks = n_masks;
    item->inputs[ATTN_MASK].length = length;
    item->inputs[ATTN_MASK].columns = columns;
}

static void wrong_lengths_and_batch_sizes_are_refused(void **state)
{
    (void)state;
    struct loaded loaded;
    struct error error;
    must(load(CASES, "default", NULL, &loaded, &error), &error);
    struct engine_item item = call_of(20);
    must(model_check(loaded.model, &item, &error), &error);
    assert_int_equal(model_item_tokens(loaded.model, &item), 20 * WIDTH);
    item.inputs[KEY].length = 19;
    assert_refused(&loaded, item, "\"key\" has 19 rows", "exactly 20");
    item = call_of(20);
    item.inputs[VALUE].length = 19;
    assert_refused(&loaded, item, "\"value\" has 19 rows", "as many as \"key\"");
    item = call_of(20);
    item.inputs[KEY].width = 3;
    assert_refused(&loaded, item, "\"key\" has batch size 3", "expected 2");
    item.inputs[QUERY].width = 0;
    assert_refused(&loaded, item, "\"query\"", "(length, batch, features)");
    item = call_of(20);
    item.inputs[QUERY].length = 33;
    assert_refused(&loaded, item, "\"query\" has 33 rows and batch size 2",
                   "this server accepts at most 64 rows in all (--max-batch-tokens)");
    unload(&loaded);
}

static void outputs_have_their_shapes(void **state)
{
    (void)state;
    struct loaded loaded;
    struct error error;
    must(load(CASES, "zero_attn", NULL, &loaded, &error), &error);
    struct engine_item item = call_of(20);
    int64_t shape[ENGINE_MAX_RANK];
    assert_int_equal(model_output_shape(loaded.model, &item, 0, shape), 3);
    assert_true(shape[0] == LENGTH && shape[1] == WIDTH && shape[2] == 24);
    assert_int_equal(model_output_shape(loaded.model, &item, 1, shape), 3);
    assert_true(shape[0] == WIDTH && shape[1] == LENGTH && shape[2] == 9);
    assert_string_equal(model_info(loaded.model)->outputs[0], "attn_output");
    assert_string_equal(model_info(loaded.model)->outputs[1], "attn_output_weights");
    unload(&loaded);
}

static void masks_of_wrong_shapes_are_refused(void **state)
{
    (void)state;
    struct loaded loaded;
    struct error error;
    must(load(CASES, "attn_mask", NULL, &loaded, &error), &error);
    struct engine_item item = call_of(8);
    give_mask(&item, 0, LENGTH, 8);
    must(model_check(loaded.model, &item, &error), &error);
    give_mask(&item, 4 * WIDTH, LENGTH, 8);
    item.inputs[KEY_PADDING_MASK].data = numbers;
    must(model_check(loaded.model, &item, &error), &error);
    give_mask(&item, 4, LENGTH, 8);
    assert_refused(&loaded, item, "\"attn_mask\" has 4 masks", "8");
    give_mask(&item, 0, LENGTH, 7);
    assert_refused(&loaded, item, "\"attn_mask\" has 5 rows of 7", "of 8");
    give_mask(&item, 0, 8, LENGTH);
    assert_refused(&loaded, item, "\"attn_mask\" has 8 rows of 5", "as many as \"query\"");
    unload(&loaded);
}

static void masks_that_the_class_fails_on_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t keys;
        const char *reason;
        bool padding_mask;
    } models[] = {{"default", 20, "proj_k", true},
                  {"zero_attn", 20, "add_zero_attn", false},
                  {"bias_kv", 19, "add_bias_kv", false}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct loaded loaded;
        struct error error;
        must(load(CASES, models[i].name, NULL, &loaded, &error), &error);
        struct engine_item item = call_of(models[i].keys);
        give_mask(&item, 0, LENGTH, 8);
        assert_refused(&loaded, item, "\"attn_mask\"", models[i].reason);
        item = call_of(models[i].keys);
        item.inputs[KEY_PADDING_MASK].data = numbers;
        if (models[i].padding_mask)
            must(model_check(loaded.model, &item, &error), &error);
        else
            assert_refused(&loaded, item, "\"key_padding_mask\"", models[i].reason);
        unload(&loaded);
    }
}

static void kwargs_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    static const char *const refused[][2] = {
        {"{\"embed_dim\": 24, \"num_heads\": 5, \"seq_len\": 20, \"proj_k\": 8}", "divisible by num_heads 5"},
        {"{\"embed_dim\": 24, \"num_heads\": 4, \"seq_len\": 1, \"proj_k\": 8, \"add_bias_kv\": true}",
         "seq_len must be at least 2"},
        {"{\"embed_dim\": 24, \"num_heads\": 4, \"seq_len\": 21, \"proj_k\": 8}", "e_proj_weight"},
        {"{\"embed_dim\": 24, \"num_heads\": 4, \"seq_len\": 20, \"proj_k\": 8, \"bias\": false}",
         "has no counterpart"},
        {"{\"embed_dim\": 24, \"num_heads\": 4, \"seq_len\": 20, \"proj_k\": 8, \"kdim\": 12}", "q_proj_weight"},
        {"{\"embed_dim\": 24, \"num_heads\": 4, \"seq_len\": 20, \"proj_k\": 8, \"param_sharing\": \"layerwise\"}",
         "f_proj_weight"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct loaded loaded = {0};
        struct error error = {""};
        assert_int_equal(load(CASES, "default", refused[i][0], &loaded, &error), -1);
        print_message("%s\n", error.message);
        assert_non_null(strstr(error.message, refused[i][1]));
        unload(&loaded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_lengths_and_batch_sizes_are_refused),
        cmocka_unit_test(outputs_have_their_shapes),
        cmocka_unit_test(masks_of_wrong_shapes_are_refused),
        cmocka_unit_test(masks_that_the_class_fails_on_are_refused),
        cmocka_unit_test(kwargs_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
