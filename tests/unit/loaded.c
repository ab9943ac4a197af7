#include "tests/unit/loaded.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

void must(int result, const struct error *error)
{
    if (result != 0)
        fail_msg("%s", error->message);
}

int load(const char *prefix, const char *name, const char *kwargs, struct loaded *loaded, struct error *error)
{
    struct engine_options options = {
        .device = {DEVICE_CPU}, .dtype = DTYPE_F32, .threads = 1, .max_batch_tokens = 64, .max_batch_requests = 2};
    return load_with(&options, prefix, name, kwargs, loaded, error);
}

int load_with(const struct engine_options *options, const char *prefix, const char *name, const char *kwargs,
              struct loaded *loaded, struct error *error)
{
    char path[256];
    struct model_config config;
    struct weights *weights;
    must(engine_open(options, &loaded->engine, error), error);
    snprintf(path, sizeof path, "tests/reference/%s%s/config.json", prefix, name);
    must(model_config_read(path, &config, error), error);
    if (kwargs) {
        json_decref(config.kwargs);
        config.kwargs = json_loads(kwargs, 0, NULL);
    }
    snprintf(path, sizeof path, "tests/reference/%s%s/model.safetensors", prefix, name);
    must(weights_open(path, &weights, error), error);
    int result = engine_load(loaded->engine, &config, weights, NULL, NULL, &loaded->model, error);
    weights_close(weights);
    model_config_free(&config);
    return result;
}

struct loaded load_builtin(enum weights_builtin_index index, const struct engine_options *options)
{
    struct weights_builtin builtin = weights_builtin(index);
    struct loaded loaded = {NULL, NULL};
    struct model_config config;
    struct weights *weights;
    struct error error;
    must(engine_open(options, &loaded.engine, &error), &error);
    must(model_config_parse(builtin.config, builtin.config_length, "builtin", &config, &error), &error);
    must(weights_open_memory(builtin.model, builtin.model_size, "builtin", &weights, &error), &error);
    must(engine_load(loaded.engine, &config, weights, NULL, NULL, &loaded.model, &error), &error);
    weights_close(weights);
    model_config_free(&config);
    return loaded;
}

void unload(struct loaded *loaded)
{
    model_close(loaded->model);
    engine_close(loaded->engine);
}

void assert_refused(const struct loaded *loaded, struct engine_item item, const char *first, const char *second)
{
    struct error error = {""};
    assert_int_equal(model_check(loaded->model, &item, &error), -1);
    print_message("%s\n", error.message);
    assert_non_null(strstr(error.message, first));
    assert_non_null(strstr(error.message, second));
}
