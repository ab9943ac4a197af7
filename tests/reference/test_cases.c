/* Every reference case through the engine's own interface: outputs within 1e-5 of the library's, and the same bits
 * alone and in a batch. */
#include "engine/engine.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES_FOLDER "tests/reference"
#define FEWEST_CASES 38
#define MAX_ITEMS 8
#define TOLERANCE 1e-5

struct loaded {
    struct engine *engine;
    struct model *model;
    struct model_config config;
    struct weights *weights, *calls;
};

static void must(int result, const struct error *error)
{
    if (result != 0)
        fail_msg("%s", error->message);
}

static void load(const char *name, struct loaded *loaded)
{
    struct error error;
    char path[512];
    struct engine_options options = {
        .device = "cpu", .dtype = "f32", .threads = 2, .max_batch_tokens = 256, .max_batch_requests = MAX_ITEMS};
    must(engine_open(&options, &loaded->engine, &error), &error);
    snprintf(path, sizeof path, CASES_FOLDER "/%s/config.json", name);
    must(model_config_read(path, &loaded->config, &error), &error);
    snprintf(path, sizeof path, CASES_FOLDER "/%s/model.safetensors", name);
    must(weights_open(path, &loaded->weights, &error), &error);
    snprintf(path, sizeof path, CASES_FOLDER "/%s/calls.safetensors", name);
    must(weights_open(path, &loaded->calls, &error), &error);
    must(engine_load(loaded->engine, &loaded->config, loaded->weights, NULL, NULL, &loaded->model, &error), &error);
}

static void unload(struct loaded *loaded)
{
    model_close(loaded->model);
    weights_close(loaded->calls);
    weights_close(loaded->weights);
    model_config_free(&loaded->config);
    engine_close(loaded->engine);
}

/* All of a tensor as the engine takes it: int32_t ids, bytes of a mask, or floats. The caller frees it. */
static void *input_data(const struct weights_tensor *tensor)
{
    if (tensor->dtype == WEIGHTS_BOOL) {
        uint8_t *mask = malloc((size_t)tensor->elements);
        memcpy(mask, tensor->data, (size_t)tensor->elements);
        return mask;
    }
    if (tensor->dtype != WEIGHTS_I64) {
        float *floats = malloc((size_t)tensor->elements * sizeof *floats);
        assert_true(weights_to_f32(tensor, floats));
        return floats;
    }
    int32_t *ids = malloc((size_t)tensor->elements * sizeof *ids);
    for (int64_t i = 0; i < tensor->elements; i++) {
        int64_t id;
        memcpy(&id, (const char *)tensor->data + (size_t)i * sizeof id, sizeof id);
        ids[i] = (int32_t)id;
    }
    return ids;
}

static double relative_l2(int64_t n, const float *found, const float *expected)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)found[i] - expected[i]) * ((double)found[i] - expected[i]);
        norm += (double)expected[i] * expected[i];
    }
    return sqrt(difference / norm);
}

/* One call of forward(): its sequences as items, their outputs behind one another. */
struct call {
    struct engine_item items[MAX_ITEMS];
    int64_t n_items, elements;
    void *inputs[ENGINE_MAX_INPUTS];
    float *expected, *found;
};

static bool prepare_call(const struct loaded *loaded, int index, struct call *call)
{
    const struct model_info *info = model_info(loaded->model);
    char name[64];
    memset(call, 0, sizeof *call);
    snprintf(name, sizeof name, "%d/out/output", index);
    const struct weights_tensor *output = weights_find(loaded->calls, name);
    if (!output)
        return false;
    call->n_items = output->shape[0];
    assert_true(call->n_items <= MAX_ITEMS);
    call->elements = output->elements;
    call->expected = input_data(output);
    call->found = calloc((size_t)output->elements, sizeof *call->found);
    for (int i = 0; i < info->n_inputs; i++) {
        snprintf(name, sizeof name, "%d/in/%s", index, info->inputs[i].name);
        const struct weights_tensor *input = weights_find(loaded->calls, name);
        if (!input)
            continue;
        call->inputs[i] = input_data(input);
        for (int64_t b = 0; b < call->n_items; b++) {
            int64_t bytes = input->dtype == WEIGHTS_BOOL ? 1 : 4;
            call->items[b].inputs[i].data = (char *)call->inputs[i] + b * (input->elements / call->n_items) * bytes;
            call->items[b].inputs[i].length = input->shape[1];
        }
    }
    for (int64_t b = 0; b < call->n_items; b++) {
        call->items[b].output = call->found + b * (output->elements / call->n_items);
        call->items[b].n_rows = call->items[b].inputs[0].length;
    }
    return true;
}

static void free_call(struct call *call)
{
    for (int i = 0; i < ENGINE_MAX_INPUTS; i++)
        free(call->inputs[i]);
    free(call->expected);
    free(call->found);
}

static void run_call(const struct loaded *loaded, const char *name, int index, struct call *call)
{
    struct error error;
    for (int64_t b = 0; b < call->n_items; b++)
        must(model_check(loaded->model, &call->items[b], &error), &error);
    must(model_run(loaded->model, call->items, call->n_items, &error), &error);
    double distance = relative_l2(call->elements, call->found, call->expected);
    print_message("%s call %d: relative L2 error %.2g\n", name, index, distance);
    assert_true(distance <= TOLERANCE); /* false for NaN, too */

    size_t bytes = (size_t)call->elements * sizeof(float);
    float *together = malloc(bytes);
    memcpy(together, call->found, bytes);
    memset(call->found, 0, bytes);
    for (int64_t b = call->n_items - 1; b >= 0; b--)
        must(model_run(loaded->model, &call->items[b], 1, &error), &error);
    if (model_info(loaded->model)->batch_invariant)
        assert_memory_equal(call->found, together, bytes);
    else
        assert_true(relative_l2(call->elements, call->found, together) <= 1e-6);
    free(together);
}

static void test_case(void **state)
{
    const char *name = *state;
    struct loaded loaded;
    load(name, &loaded);
    int index = 0;
    struct call call;
    for (; prepare_call(&loaded, index, &call); index++) {
        run_call(&loaded, name, index, &call);
        free_call(&call);
    }
    assert_true(index > 0);
    unload(&loaded);
}

static int is_case(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !strchr(entry->d_name, '.');
}

int main(void)
{
    struct dirent **entries;
    int count = scandir(CASES_FOLDER, &entries, is_case, alphasort);
    if (count < FEWEST_CASES) {
        fprintf(stderr, "%d cases in " CASES_FOLDER ", expected %d: run from the root of the repository\n", count,
                FEWEST_CASES);
        return 1;
    }
    struct CMUnitTest *tests = calloc((size_t)count, sizeof *tests);
    for (int i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){entries[i]->d_name, test_case, NULL, NULL, entries[i]->d_name};
    int failed = _cmocka_run_group_tests("reference cases", tests, (size_t)count, NULL, NULL);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    free(tests);
    return failed;
}
