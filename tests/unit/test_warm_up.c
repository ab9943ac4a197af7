/* Tests of model_warm_up, for the model of every reference case, and of the FLOPs of an item. */
#include "tests/unit/loaded.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES_FOLDER "tests/reference"
#define MIN_CASES 82

static const struct engine_options options = {
    .device = {DEVICE_CPU}, .dtype = DTYPE_F32, .threads = 2, .max_batch_tokens = 256, .max_batch_requests = 4};

static bool is_case(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, CASES_FOLDER "/%s/calls.safetensors", name);
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file != NULL;
}

static void warm_up(const char *name)
{
    struct loaded loaded = {NULL, NULL};
    struct error error = {""};
    double flops = 0;
    must(load_with(&options, "", name, NULL, &loaded, &error), &error);
    if (model_warm_up(loaded.model, 0, &flops, &error) != 0)
        fail_msg("%s: %s", name, error.message);
    if (flops <= 0)
        fail_msg("%s: no batch was run", name);
    unload(&loaded);
}

static void every_model_runs_a_first_batch(void **state)
{
    (void)state;
    DIR *folder = opendir(CASES_FOLDER);
    int count = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.' || !is_case(entry->d_name))
            continue;
        warm_up(entry->d_name);
        count++;
    }
    closedir(folder);
    assert_true(count >= MIN_CASES);
}

/* The FLOPs of an item grow with its rows, and with the requested rows of the output. */
static void longer_items_cost_more(void **state)
{
    (void)state;
    struct loaded loaded = {NULL, NULL};
    struct error error = {""};
    double before = 0;
    float output;
    must(load_with(&options, "", "linformer_lm", NULL, &loaded, &error), &error);
    int64_t most = model_info(loaded.model)->inputs[0].max_length;
    for (int64_t length = 1; length <= most; length++) {
        struct engine_item item = {.inputs[0].length = length};
        double flops = model_item_flops(loaded.model, &item);
        assert_true(flops > before);
        before = flops;
    }
    struct engine_item item = {.inputs[0].length = most, .output = &output, .n_rows = 1};
    double one = model_item_flops(loaded.model, &item);
    item.n_rows = most;
    double all = model_item_flops(loaded.model, &item);
    assert_true(one > before && all > one);
    unload(&loaded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_runs_a_first_batch),
        cmocka_unit_test(longer_items_cost_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
