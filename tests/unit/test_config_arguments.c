#include "config/config.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

struct family {
    int64_t dim, heads, depth, value_dim, reduce;
    bool causal, reversible;
    json_t *linformer_settings, *any;
};

static const struct argument table[] = {
    {"dim", ARGUMENT_SIZE, true, 0, offsetof(struct family, dim)},
    {"heads", ARGUMENT_OPTIONAL_SIZE, false, 8, offsetof(struct family, heads)},
    {"depth", ARGUMENT_COUNT, false, 6, offsetof(struct family, depth)},
    {"causal", ARGUMENT_BOOL, false, 0, offsetof(struct family, causal)},
    {"reversible", ARGUMENT_BOOL, false, 1, offsetof(struct family, reversible)},
    {"linformer_settings", ARGUMENT_OBJECT, false, 0, offsetof(struct family, linformer_settings)},
    {"value_dim", ARGUMENT_OPTIONAL_COUNT, false, 3, offsetof(struct family, value_dim)},
    {"reduce", ARGUMENT_INTEGER, false, -2, offsetof(struct family, reduce)},
    {"dropout", ARGUMENT_DROPOUT, false, 0, 0},
    {"bucket_size", ARGUMENT_TRAINING, false, 0, 0},
    {"any", ARGUMENT_JSON, false, 0, offsetof(struct family, any)},
};

/* The caller must keep `kwargs` as long as the family, which refers to them. */
static int read_kwargs(const json_t *kwargs, struct family *family, struct error *error)
{
    memset(family, 0xee, sizeof *family);
    return arguments_read("m.Family", table, sizeof table / sizeof *table, kwargs, family, error);
}

static void refuse(const char *text, const char *expected)
{
    struct family family;
    struct error error = {""};
    json_t *kwargs = json_loads(text, 0, NULL);
    assert_non_null(kwargs);
    assert_int_equal(read_kwargs(kwargs, &family, &error), -1);
    if (strncmp(error.message, "m.Family: ", 10) != 0 || !strstr(error.message, expected))
        fail_msg("'%s' is not in '%s'", expected, error.message);
    json_decref(kwargs);
}

static void fills_in_defaults(void **state)
{
    (void)state;
    struct family family;
    struct error error = {""};
    json_t *kwargs = json_loads("{\"dim\": 512}", 0, NULL);
    assert_int_equal(read_kwargs(kwargs, &family, &error), 0);
    assert_int_equal(family.dim, 512);
    assert_int_equal(family.heads, 8);
    assert_int_equal(family.depth, 6);
    assert_int_equal(family.value_dim, 3);
    assert_int_equal(family.reduce, -2);
    assert_false(family.causal);
    assert_true(family.reversible);
    assert_null(family.linformer_settings);
    assert_null(family.any);
    json_decref(kwargs);
}

static void reads_every_type(void **state)
{
    (void)state;
    struct family family;
    struct error error = {""};
    json_t *kwargs = json_loads("{\"dim\": 2147483647, \"heads\": null, \"depth\": 0, \"causal\": true, "
                                "\"reversible\": false, \"linformer_settings\": {\"k\": 4}, \"dropout\": 0.1, "
                                "\"any\": null, \"value_dim\": 0, \"reduce\": -2147483647, "
                                "\"bucket_size\": [1]}",
                                0, NULL);
    assert_int_equal(read_kwargs(kwargs, &family, &error), 0);
    assert_int_equal(family.dim, INT32_MAX);
    assert_int_equal(family.heads, 0);
    assert_int_equal(family.depth, 0);
    assert_true(family.causal);
    assert_false(family.reversible);
    assert_ptr_equal(family.linformer_settings, json_object_get(kwargs, "linformer_settings"));
    assert_true(json_is_null(family.any));
    assert_int_equal(family.value_dim, 0);
    assert_int_equal(family.reduce, -INT32_MAX);
    json_decref(kwargs);

    kwargs = json_loads("{\"dim\": 1, \"linformer_settings\": null, \"value_dim\": null, \"dropout\": 1}", 0, NULL);
    assert_int_equal(read_kwargs(kwargs, &family, &error), 0);
    assert_int_equal(family.value_dim, 0);
    assert_null(family.linformer_settings);
    json_decref(kwargs);
}

static void refuses_values_of_another_type_or_range(void **state)
{
    (void)state;
    refuse("{}", "argument dim is missing; expected an integer from 1 to 2147483647");
    refuse("{\"dim\": 0}", "argument dim: expected an integer from 1 to 2147483647, found 0");
    refuse("{\"dim\": -5}", "found -5");
    refuse("{\"dim\": 2147483648}", "found 2147483648");
    refuse("{\"dim\": 9223372036854775807}", "found 9223372036854775807");
    refuse("{\"dim\": 8.0}", "found the fraction 8");
    refuse("{\"dim\": \"8\"}", "found \"8\"");
    refuse("{\"dim\": true}", "found true");
    refuse("{\"dim\": null}", "found null");
    refuse("{\"dim\": [8]}", "found a list");
    refuse("{\"dim\": {}}", "found an object");
    refuse("{\"dim\": 1, \"heads\": 0}", "argument heads: expected an integer from 1 to 2147483647 or null, found 0");
    refuse("{\"dim\": 1, \"depth\": -1}", "argument depth: expected an integer from 0 to 2147483647, found -1");
    refuse("{\"dim\": 1, \"depth\": null}", "found null");
    refuse("{\"dim\": 1, \"causal\": 1}", "argument causal: expected true or false, found 1");
    refuse("{\"dim\": 1, \"causal\": null}", "found null");
    refuse("{\"dim\": 1, \"value_dim\": -1}", "expected an integer from 0 to 2147483647 or null, found -1");
    refuse("{\"dim\": 1, \"reduce\": -2147483648}", "argument reduce: expected an integer");
    refuse("{\"dim\": 1, \"reduce\": null}", "found null");
    refuse("{\"dim\": 1, \"dropout\": 1.5}", "argument dropout: expected a number from 0 to 1, found the fraction 1.5");
    refuse("{\"dim\": 1, \"dropout\": -1}", "found -1");
    refuse("{\"dim\": 1, \"dropout\": null}", "found null");
    refuse("{\"dim\": 1, \"linformer_settings\": []}", "expected an object or null, found a list");
}

static void refuses_unknown_arguments_and_names_the_known(void **state)
{
    (void)state;
    refuse("{\"dim\": 1, \"dims\": 2}",
           "unknown argument \"dims\"; the class has dim, heads, depth, causal, reversible, "
           "linformer_settings, value_dim, reduce, dropout, bucket_size, any");
    refuse("{\"\": 2}", "unknown argument \"\"");
}

static void a_class_may_have_no_arguments(void **state)
{
    (void)state;
    struct error error = {""};
    json_t *kwargs = json_object();
    assert_int_equal(arguments_read("m.None", table, 0, kwargs, NULL, &error), 0);
    json_object_set_new(kwargs, "dim", json_integer(1));
    assert_int_equal(arguments_read("m.None", table, 0, kwargs, NULL, &error), -1);
    assert_string_equal(error.message, "m.None: unknown argument \"dim\"; the class has none");
    json_decref(kwargs);
}

/* A long value is cut in the message, and ends in three dots. The text before the value is complete. */
static void messages_cut_long_values(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 'y', sizeof text);
    text[sizeof text - 1] = '\0';
    json_t *kwargs = json_pack("{s:s}", "dim", text);
    struct family family;
    struct error error = {""};
    assert_int_equal(read_kwargs(kwargs, &family, &error), -1);
    assert_true(strlen(error.message) < 200);
    assert_non_null(strstr(error.message, "argument dim: expected an integer from 1 to 2147483647, found \"yyy"));
    assert_string_equal(error.message + strlen(error.message) - 6, "yyy...");
    json_decref(kwargs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_in_defaults),
        cmocka_unit_test(reads_every_type),
        cmocka_unit_test(refuses_values_of_another_type_or_range),
        cmocka_unit_test(refuses_unknown_arguments_and_names_the_known),
        cmocka_unit_test(a_class_may_have_no_arguments),
        cmocka_unit_test(messages_cut_long_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
