/* Tests of models whose items are images: which inputs are accepted or refused, and the messages. */
#include "engine/engine.h"
#include "tests/unit/loaded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define CASES "linear_attention_image"
#define MAX_PIXELS 64 /* number of pixels of the largest image that the engine of loaded.c accepts */

enum { X, CONTEXT };

static float numbers[1]; /* the data of all inputs and results. It is never read, because no item runs */

static struct engine_item image_of(int64_t height, int64_t width)
{
    return (struct engine_item){.inputs[X] = {.data = numbers, .length = height, .width = width}};
}

static struct engine_item with_context(int64_t height, int64_t width, int64_t length)
{
    struct engine_item item = image_of(height, width);
    item.inputs[CONTEXT].data = numbers;
    item.inputs[CONTEXT].length = length;
    return item;
}

static void assert_taken(const struct loaded *loaded, struct engine_item item, int64_t tokens)
{
    struct error error;
    must(model_check(loaded->model, &item, &error), &error);
    assert_int_equal(model_item_tokens(loaded->model, &item), tokens);
}

static void assert_shape(const struct loaded *loaded, struct engine_item item, int64_t channels, int64_t height,
                         int64_t width)
{
    int64_t shape[ENGINE_MAX_RANK];
    assert_int_equal(model_output_shape(loaded->model, &item, 0, shape), 3);
    assert_true(shape[0] == channels && shape[1] == height && shape[2] == width);
}

static void images_of_any_size_up_to_a_batch_are_accepted(void **state)
{
    (void)state;
    struct loaded loaded = {0};
    struct error error;
    must(load(CASES, "", NULL, &loaded, &error), &error);
    const struct model_info *info = model_info(loaded.model);
    assert_int_equal(info->n_inputs, 2);
    assert_true(info->inputs[X].layout == LAYOUT_IMAGE && info->inputs[CONTEXT].layout == LAYOUT_CHANNELS);
    assert_int_equal(info->inputs[X].max_length, MAX_PIXELS);
    assert_taken(&loaded, image_of(8, 8), 64);
    assert_taken(&loaded, image_of(1, 64), 64);
    assert_taken(&loaded, with_context(7, 8, 8), 64);
    assert_refused(&loaded, image_of(5, 13), "\"x\" is an image of 5 x 13 pixels",
                   "this server accepts at most 64 pixels (--max-batch-tokens)");
    assert_refused(&loaded, image_of(INT64_MAX, INT64_MAX), "\"x\" is an image of", "at most 64");
    assert_refused(&loaded, with_context(7, 8, 9), "65 pixels", "this server accepts at most 64 (--max-batch-tokens)");
    assert_refused(&loaded, with_context(1, 1, 65), "\"context\" has 65 rows",
                   "this server accepts at most 64 (--max-batch-tokens)");
    assert_refused(&loaded, with_context(1, 1, INT64_MAX), "\"context\"", "at most 64");
    assert_refused(&loaded, image_of(0, 5), "\"x\" is empty", "pixel");
    assert_refused(&loaded, image_of(5, 0), "\"x\" is empty", "pixel");
    assert_refused(&loaded, with_context(1, 1, 0), "\"context\" is empty", "");
    assert_refused(&loaded, (struct engine_item){0}, "\"x\" is missing", "");
    unload(&loaded);
}

/* A convolution with a window of one pixel, padding and a stride of 2 keeps the number of pixels of some small images,
 * such as 2 x 2 and 3 x 2. It changes the number of pixels of larger images, which are refused. */
static void sizes_that_change_the_number_of_pixels_are_refused(void **state)
{
    (void)state;
    struct loaded loaded = {0};
    struct error error;
    must(load(CASES, "_stride", NULL, &loaded, &error), &error);
    assert_taken(&loaded, image_of(3, 2), 20);
    assert_shape(&loaded, image_of(3, 2), 6, 5, 4);
    assert_taken(&loaded, with_context(2, 2, 36), 4 + 2 * 19);
    assert_refused(&loaded, image_of(4, 3), "\"x\" is an image of 4 x 3 pixels", "to 3 x 3");
    assert_refused(&loaded, with_context(2, 2, 60), "66 pixels", "at most 64");
    assert_refused(&loaded, with_context(2, 2, 64), "\"context\" is an image of 1 x 64 pixels", "to 2 x 33");
    unload(&loaded);
    must(load(CASES, "_turned", NULL, &loaded, &error), &error);
    assert_shape(&loaded, image_of(7, 5), 4, 5, 7);
    assert_refused(&loaded, image_of(2, 2), "\"x\" is an image of 2 x 2 pixels, which is too small", "kernel of 3 x 1");
    assert_refused(&loaded, image_of(3, 3), "\"x\" is an image of 3 x 3 pixels", "to 1 x 5");
    unload(&loaded);
}

/* In the first case, the values of the context have another number of features than its keys. In the second case, the
 * context has the height 1, less than the height of the kernel. */
static void contexts_that_the_class_fails_on_are_refused(void **state)
{
    (void)state;
    struct loaded loaded = {0};
    struct error error;
    must(load(CASES, "_same", NULL, &loaded, &error), &error);
    assert_refused(&loaded, with_context(2, 2, 3), "\"context\" is not accepted", "key_dim");
    unload(&loaded);
    loaded = (struct loaded){0};
    const char *kwargs = "{\"chan\": 8, \"chan_out\": 6, \"kernel_size\": 3, \"padding\": [0, 2], \"heads\": 2, "
                         "\"key_dim\": 4, \"value_dim\": 4}";
    must(load(CASES, "_conv3", kwargs, &loaded, &error), &error);
    assert_taken(&loaded, image_of(5, 3), 15);
    assert_refused(&loaded, with_context(5, 3, 3), "\"context\" is not accepted", "height 1");
    unload(&loaded);
    must(load(CASES, "_conv3", NULL, &loaded, &error), &error);
    assert_taken(&loaded, with_context(2, 2, 3), 7);
    unload(&loaded);
}

static void an_output_must_have_all_rows_of_its_image(void **state)
{
    (void)state;
    struct loaded loaded = {0};
    struct error error;
    int32_t row = 0;
    must(load(CASES, "", NULL, &loaded, &error), &error);
    struct engine_item item = image_of(2, 3);
    item.output = numbers;
    item.n_rows = 5;
    assert_refused(&loaded, item, "5 rows of the output", "the output has 6");
    item.n_rows = 6;
    assert_taken(&loaded, item, 6);
    item.softmax = true;
    assert_refused(&loaded, item, "image", "");
    item.softmax = false;
    item.rows = &row;
    item.n_rows = 1;
    assert_refused(&loaded, item, "image", "");
    item = image_of(2, 3);
    item.hidden = numbers;
    assert_refused(&loaded, item, "image", "");
    item.hidden = NULL;
    item.pooled = numbers;
    assert_refused(&loaded, item, "image", "");
    unload(&loaded);
}

static void kwargs_that_do_not_fit_are_refused(void **state)
{
    (void)state;
#define KWARGS(more) "{\"chan\": 8, \"heads\": 2, \"key_dim\": 8, \"value_dim\": 8" more "}"
    static const char *const refused[][2] = {
        {KWARGS(", \"padding\": 1"), "padding 1 x 1 and stride 1 x 1, no image keeps its number of pixels"},
        {KWARGS(", \"kernel_size\": 2, \"stride\": [1, 2]"), "stride 1 x 2, no image keeps"},
        {KWARGS(", \"kernel_size\": 3"), "kernel_size 3 x 3"},
        {KWARGS(", \"kernel_size\": 3, \"padding\": \"valid\""), "no image keeps"},
        {KWARGS(", \"kernel_size\": 3, \"padding\": \"same\""), "to_q.weight\": expected shape [16, 8, 3, 3]"},
        {KWARGS(", \"padding\": 2147483647"), "no image keeps"},
        {KWARGS(", \"padding\": 2147483647, \"stride\": 2147483647"), "no image keeps"},
        {KWARGS(", \"padding\": \"same\", \"stride\": 2"), "\"same\" needs a stride of 1"},
        {KWARGS(", \"padding\": \"full\""), "argument padding: expected"},
        {KWARGS(", \"padding\": -1"), "argument padding: expected"},
        {KWARGS(", \"padding\": [0, 0, 0]"), "argument padding: expected"},
        {KWARGS(", \"padding\": [0, 1.0]"), "argument padding: expected"},
        {KWARGS(", \"padding\": null"), "argument padding: expected"},
        {KWARGS(", \"stride\": []"), "argument stride: expected"},
        {KWARGS(", \"stride\": 0"), "argument stride: expected"},
        {KWARGS(", \"kernel_size\": [1]"), "argument kernel_size: expected"},
        {KWARGS(", \"kernel_size\": 0"), "argument kernel_size: expected"},
        {KWARGS(", \"kernel_size\": 2147483648"), "argument kernel_size: expected"},
        {KWARGS(", \"dim\": 8"), "unknown argument \"dim\""},
        {KWARGS(", \"chan_out\": 9"), "to_out.weight\": expected shape [9, 16, 1, 1]"},
        {"{\"chan\": 8, \"heads\": 4, \"key_dim\": 8, \"value_dim\": 8}", "to_q.weight"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct loaded loaded = {0};
        struct error error = {""};
        assert_int_equal(load(CASES, "", refused[i][0], &loaded, &error), -1);
        print_message("%s\n", error.message);
        assert_non_null(strstr(error.message, refused[i][1]));
        unload(&loaded);
    }
    static const char *const taken[] = {KWARGS(", \"padding\": [0], \"stride\": [1], \"kernel_size\": [1, 1]"),
                                        KWARGS(", \"padding\": \"same\""), KWARGS(", \"padding\": 1, \"stride\": 2"),
                                        KWARGS(", \"norm_queries\": false, \"chan_out\": null")};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        struct loaded loaded = {0};
        struct error error;
        must(load(CASES, "", taken[i], &loaded, &error), &error);
        unload(&loaded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_any_size_up_to_a_batch_are_accepted),
        cmocka_unit_test(sizes_that_change_the_number_of_pixels_are_refused),
        cmocka_unit_test(contexts_that_the_class_fails_on_are_refused),
        cmocka_unit_test(an_output_must_have_all_rows_of_its_image),
        cmocka_unit_test(kwargs_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
