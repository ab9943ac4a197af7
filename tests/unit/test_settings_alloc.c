#include "tests/unit/alloc_fail.h"

#include <jansson.h>
#include <unistd.h>

static char path[] = "/tmp/linformerd-settings-XXXXXX";

static int read_settings(struct error *error)
{
    char *argv[] = {"linformerd", "--config", path, "--model", "a=b", "--model=c", "--host", "::1", NULL};
    char *environment[] = {"LINFORMERD_MODEL=d,e=f", "LINFORMERD_API_KEY=key", "LINFORMERD_DEVICE=cpu", NULL};
    struct settings settings;
    enum settings_action action;
    const char *explain;
    if (settings_read(8, argv, environment, &settings, &action, &explain, error) != 0)
        return -1;
    assert_int_equal(settings.n_models, 2);
    settings_free(&settings);
    return 0;
}

static void reading_survives_each_failure(void **state)
{
    (void)state;
    const char *text = "{\"model\": [\"g\", \"h=i\"], \"port\": 0, \"dtype\": \"f32\", \"log_format\": \"json\"}";
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    close(file);
    assert_true(alloc_fail_each(read_settings) > 30);
    unlink(path);
}

int main(void)
{
    json_set_alloc_funcs(malloc, free);
    const struct CMUnitTest tests[] = {cmocka_unit_test(reading_survives_each_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
