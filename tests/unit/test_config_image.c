/* Tests of the key `image` of config.json. test_image_read tests the effect of the settings on pictures. */
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FILE_BYTES 256

/* Writes the text of a config.json with this value of `image` to `file`, and returns it. */
static const char *file_with(const char *image, char file[FILE_BYTES])
{
    int length = snprintf(file, FILE_BYTES, "{\"architecture\": \"a\", \"image\": %s}", image);
    assert_in_range(length, 1, FILE_BYTES - 1);
    return file;
}

static struct image_settings parse(const char *image)
{
    char buffer[FILE_BYTES];
    const char *file = file_with(image, buffer);
    struct model_config config;
    struct error error = {""};
    if (model_config_parse(file, strlen(file), "config.json", &config, &error) != 0)
        fail_msg("%s: %s", image, error.message);
    struct image_settings settings = config.image;
    model_config_free(&config);
    return settings;
}

/* Expects the message "config.json: image: ", followed by `expected`. */
static void refuse(const char *image, const char *expected)
{
    static const char place[] = "config.json: image: ";
    char buffer[FILE_BYTES];
    const char *file = file_with(image, buffer);
    struct model_config config;
    struct error error = {""};
    assert_int_equal(model_config_parse(file, strlen(file), "config.json", &config, &error), -1);
    if (strncmp(error.message, place, strlen(place)) != 0 || strcmp(error.message + strlen(place), expected) != 0)
        fail_msg("%s: '%s', expected '%s'", image, error.message, expected);
}

static void assert_channels(const float values[3], float red, float green, float blue)
{
    assert_true(values[0] == red && values[1] == green && values[2] == blue);
}

static void has_the_defaults_of_torchvision(void **state)
{
    (void)state;
    struct image_settings settings = parse("{}");
    assert_int_equal(settings.height, 224);
    assert_int_equal(settings.width, 224);
    assert_int_equal(settings.resize, IMAGE_RESIZE_BILINEAR);
    assert_true(settings.crop);
    assert_int_equal(settings.resize_height, 256);
    assert_int_equal(settings.resize_width, 0);
    assert_true(settings.scale == 1.0 / 255);
    assert_channels(settings.mean, 0.485F, 0.456F, 0.406F);
    assert_channels(settings.std, 0.229F, 0.224F, 0.225F);
    struct image_settings other = image_settings_default(28, 42);
    assert_int_equal(other.height, 28);
    assert_int_equal(other.width, 42);
    assert_int_equal(other.resize_height, 48);
    assert_true(other.scale == settings.scale);
}

/* The keys may be in any order. */
static void reads_every_key(void **state)
{
    (void)state;
    struct image_settings settings =
        parse("{\"resize_size\": [40, 50], \"size\": [30, 20], \"resize\": \"bicubic\", \"crop\": \"center\", "
              "\"scale\": 2, \"mean\": [1, 2.5, -3], \"std\": [4, 5, 6]}");
    assert_int_equal(settings.height, 30);
    assert_int_equal(settings.width, 20);
    assert_int_equal(settings.resize, IMAGE_RESIZE_BICUBIC);
    assert_true(settings.crop);
    assert_int_equal(settings.resize_height, 40);
    assert_int_equal(settings.resize_width, 50);
    assert_true(settings.scale == 2);
    assert_channels(settings.mean, 1, 2.5F, -3);
    assert_channels(settings.std, 4, 5, 6);
    settings = parse("{\"resize\": \"none\", \"crop\": \"none\"}");
    assert_int_equal(settings.resize, IMAGE_RESIZE_NONE);
    assert_false(settings.crop);
}

/* The resize_height of size 299 is that of Inception v3 in torchvision. */
static void the_default_resize_size_is_in_proportion_to_the_crop(void **state)
{
    (void)state;
    assert_int_equal(parse("{\"size\": 299}").resize_height, 342);
    assert_int_equal(parse("{\"size\": [112, 56]}").resize_height, 128);
    assert_int_equal(parse("{\"size\": [56, 112]}").resize_height, 128);
    assert_int_equal(parse("{\"size\": 32}").resize_height, 37);
    assert_int_equal(parse("{\"resize_size\": 300, \"size\": 299}").resize_height, 300);
    assert_int_equal(parse("{\"resize_size\": 300, \"size\": 299}").resize_width, 0);
}

static void refuses_bad_values_by_name(void **state)
{
    (void)state;
    static const char size[] = "size: expected [height, width] or one number for both, each from 1 to 16384, found ";
    static const struct {
        const char *image, *found;
    } sizes[] = {
        {"{\"size\": 0}", "0"},
        {"{\"size\": -3}", "-3"},
        {"{\"size\": 16385}", "16385"},
        {"{\"size\": 224.5}", "the fraction 224.5"},
        {"{\"size\": [224]}", "a list"},
        {"{\"size\": [224, 0]}", "a list"},
        {"{\"size\": [224, 224, 3]}", "a list"},
        {"{\"size\": {\"height\": 224}}", "an object"},
        {"{\"size\": \"224\"}", "\"224\""},
        {"{\"size\": null}", "null"},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char message[256];
        snprintf(message, sizeof message, "%s%s", size, sizes[i].found);
        refuse(sizes[i].image, message);
    }
    refuse("[]", "expected an object, found a list");
    refuse("{\"resize\": \"nearest\"}", "resize: expected none, bilinear or bicubic, found \"nearest\"");
    refuse("{\"resize\": false}", "resize: expected none, bilinear or bicubic, found false");
    refuse("{\"crop\": \"random\"}", "crop: expected center or none, found \"random\"");
    refuse("{\"crop\": 224}", "crop: expected center or none, found 224");
    refuse("{\"resize_size\": [256, 0]}",
           "resize_size: expected the shorter edge or [height, width], each from 1 to 16384, found a list");
    refuse("{\"scale\": 0}", "scale: expected a number above 0, found 0");
    refuse("{\"scale\": \"1/255\"}", "scale: expected a number above 0, found \"1/255\"");
    refuse("{\"scale\": 1e300}", "scale: expected a number above 0, found the fraction 1e+300");
    refuse("{\"mean\": 0.5}", "mean: expected a list of three numbers, found the fraction 0.5");
    refuse("{\"mean\": [0.5]}", "mean: expected a list of three numbers, found a list");
    refuse("{\"mean\": [0, 0, \"0\"]}", "mean: expected a list of three numbers, found a list");
    refuse("{\"std\": [1, 1, 0]}", "std: expected a list of three numbers that are not 0, found a list");
    refuse("{\"std\": [1, 1, 1e-300]}", "std: expected a list of three numbers that are not 0, found a list");
    refuse("{\"antialias\": true}", "unknown key \"antialias\"; the known ones are size, resize, resize_size, crop, "
                                    "scale, mean, std");
}

static void refuses_values_that_contradict_each_other(void **state)
{
    (void)state;
    refuse("{\"resize\": \"none\", \"resize_size\": 256}",
           "resize_size: has no meaning, because \"resize\" is \"none\"");
    refuse("{\"resize_size\": 256, \"crop\": \"none\"}",
           "resize_size: has no meaning, because \"crop\" is \"none\": the picture is resized to \"size\"");
    refuse("{\"scale\": 3e38}", "scale, mean and std lead to values that are not finite");
    refuse("{\"mean\": [0, 3e38, 0], \"std\": [1, 0.5, 1]}", "scale, mean and std lead to values that are not finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_defaults_of_torchvision),
        cmocka_unit_test(reads_every_key),
        cmocka_unit_test(the_default_resize_size_is_in_proportion_to_the_crop),
        cmocka_unit_test(refuses_bad_values_by_name),
        cmocka_unit_test(refuses_values_that_contradict_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
