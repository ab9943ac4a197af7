/* Tests of the key `generation` of config.json. http/test_writer tests the key's effect on requests. */
#include "config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define FILE_BYTES 256

static int read_generation(const char *generation, struct generation_settings *settings, struct error *error)
{
    char file[FILE_BYTES];
    int length = snprintf(file, FILE_BYTES, "{\"architecture\": \"a\"%s%s}", *generation ? ", \"generation\": " : "",
                          generation);
    assert_in_range(length, 1, FILE_BYTES - 1);
    struct model_config config;
    if (model_config_parse(file, strlen(file), "config.json", &config, error) != 0)
        return -1;
    *settings = config.generation;
    model_config_free(&config);
    return 0;
}

static void test_absent_keys_choose_the_likeliest_token(void **state)
{
    (void)state;
    static const char *const absent[] = {"", "{}"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        struct generation_settings settings;
        struct error error;
        assert_int_equal(read_generation(absent[i], &settings, &error), 0);
        assert_false(settings.do_sample);
        assert_int_equal(settings.top_k, 0);
        assert_true(settings.temperature == 1 && settings.top_p == 1);
        assert_true(settings.min_p == 0 && settings.repetition_penalty == 1);
    }
}

static void test_all_keys_are_read(void **state)
{
    (void)state;
    struct generation_settings settings;
    struct error error;
    assert_int_equal(read_generation("{\"do_sample\": true, \"top_k\": 7, \"temperature\": 0.5, \"top_p\": 0.9,"
                                     " \"min_p\": 0.25, \"repetition_penalty\": 2}",
                                     &settings, &error),
                     0);
    assert_true(settings.do_sample);
    assert_int_equal(settings.top_k, 7);
    assert_true(settings.temperature == 0.5 && settings.top_p == 0.9);
    assert_true(settings.min_p == 0.25 && settings.repetition_penalty == 2);
}

static void test_wrong_values_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *generation, *expected;
    } cases[] = {
        {"[]", "config.json: generation: expected an object"},
        {"{\"do_sample\": 1}", "config.json: generation: do_sample: expected true or false"},
        {"{\"top_k\": -1}", "config.json: generation: top_k: expected an integer of at least 0"},
        {"{\"top_k\": 1.5}", "config.json: generation: top_k: expected an integer of at least 0"},
        {"{\"temperature\": 0}", "config.json: generation: temperature: expected a number above 0"},
        {"{\"temperature\": \"1\"}", "config.json: generation: temperature: expected a number above 0"},
        {"{\"top_p\": 0}", "config.json: generation: top_p: expected a number above 0, at most 1"},
        {"{\"top_p\": 1.5}", "config.json: generation: top_p: expected a number above 0, at most 1"},
        {"{\"min_p\": -0.5}", "config.json: generation: min_p: expected a number from 0 to 1"},
        {"{\"repetition_penalty\": 0}", "config.json: generation: repetition_penalty: expected a number above 0"},
        {"{\"seed\": 1}", "config.json: generation: seed: unknown key; the known ones are do_sample,"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct generation_settings settings;
        struct error error;
        assert_int_equal(read_generation(cases[i].generation, &settings, &error), -1);
        if (strncmp(error.message, cases[i].expected, strlen(cases[i].expected)) != 0)
            fail_msg("%s: '%s', expected '%s'", cases[i].generation, error.message, cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absent_keys_choose_the_likeliest_token),
        cmocka_unit_test(test_all_keys_are_read),
        cmocka_unit_test(test_wrong_values_are_refused),
    };
    return cmocka_run_group_tests_name("config: generation", tests, NULL, NULL);
}
