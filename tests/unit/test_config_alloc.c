#include "tests/unit/alloc_fail.h"

#include <jansson.h>
#include <unistd.h>

static const char text[] = "{\"architecture\": \"a.B\", \"name\": \"n\", \"kwargs\": {\"dim\": 8, \"list\": [1, 2.5]}, "
                           "\"tokenizer\": {\"type\": \"byte\"}}";

static char path[] = "/tmp/linformerd-config-XXXXXX";

static int parse(struct error *error)
{
    struct model_config config;
    if (model_config_parse(text, sizeof text - 1, "text", &config, error) != 0)
        return -1;
    model_config_free(&config);
    return 0;
}

/* Parses a text without kwargs, for which the parser allocates an empty object. */
static int parse_least(struct error *error)
{
    struct model_config config;
    const char *least = "{\"architecture\": \"a\"}";
    if (model_config_parse(least, strlen(least), "text", &config, error) != 0)
        return -1;
    model_config_free(&config);
    return 0;
}

static int read_file(struct error *error)
{
    struct model_config config;
    if (model_config_read(path, &config, error) != 0)
        return -1;
    model_config_free(&config);
    return 0;
}

static void parsing_survives_each_failure(void **state)
{
    (void)state;
    assert_true(alloc_fail_each(parse) > 10);
    assert_true(alloc_fail_each(parse_least) > 3);
}

static void reading_survives_each_failure(void **state)
{
    (void)state;
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    close(file);
    assert_int_equal(alloc_fail_each(read_file), alloc_fail_each(parse) + 1);
    unlink(path);
}

int main(void)
{
    json_set_alloc_funcs(malloc, free);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parsing_survives_each_failure),
        cmocka_unit_test(reading_survives_each_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
