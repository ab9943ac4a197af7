/* Tests every reference case through engine.h. Every output must be within TOLERANCE of the library's output. The
 * outputs of an item alone must have the same bits as in the batch. If the model is not batch invariant, they must be
 * within ALONE_TOLERANCE. test_cases_bf16.c does the same in bf16, tests/cuda/test_cases_cuda.c on CUDA, test_modules.c
 * with modules. */
#include "tests/sanitized.h"
#include "tests/unit/case_files.h"
#include "tests/unit/reference_calls.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifndef CASES
#define CASES "tests/reference"
#define MIN_CASES 82
#endif

#ifndef BATCH_TOKENS
#define BATCH_TOKENS 256
#endif

#ifndef DTYPE
#define DTYPE DTYPE_F32
#define TOLERANCE 1e-5
#endif

#ifndef DEVICE
#define DEVICE DEVICE_CPU
#endif

#ifndef ALONE_TOLERANCE
#define ALONE_TOLERANCE 1e-6
#endif

#define ITEMS_ALONE (SANITIZED ? 1 : CALL_ITEMS) /* maximum number of items of a batch that also run alone */

struct loaded {
    struct engine *engine;
    struct model *model;
    struct model_config config;
    struct weights *weights, *calls;
    char *weights_bytes, *calls_bytes;
};

static struct case_files *files;

static void must(int result, const struct error *error)
{
    if (result != 0)
        fail_msg("%s", error->message);
}

static struct weights *open_file(const char *name, const char *file, char **bytes)
{
    struct weights *weights = NULL;
    struct error error;
    size_t length;
    *bytes = case_files_read(files, name, file, &length);
    assert_non_null(*bytes);
    must(weights_open_memory(*bytes, length, file, &weights, &error), &error);
    return weights;
}

static void read_config(const char *name, struct model_config *config)
{
    struct error error;
    size_t length;
    char *text = case_files_read(files, name, "config.json", &length);
    assert_non_null(text);
    must(model_config_parse(text, length, name, config, &error), &error);
    free(text);
}

static void load(const char *name, struct loaded *loaded)
{
    struct error error;
    struct engine_options options = {.device = {DEVICE},
                                     .dtype = DTYPE,
                                     .threads = 2,
                                     .all_threads = true,
                                     .max_batch_tokens = BATCH_TOKENS,
                                     .max_batch_requests = CALL_ITEMS};
    if (engine_open(&options, &loaded->engine, &error) != 0) {
        if (DTYPE == DTYPE_F32)
            fail_msg("%s", error.message);
        print_message("skipped: %s\n", error.message);
        skip();
    }
    read_config(name, &loaded->config);
    loaded->weights = open_file(name, "model.safetensors", &loaded->weights_bytes);
    loaded->calls = open_file(name, "calls.safetensors", &loaded->calls_bytes);
    must(engine_load(loaded->engine, &loaded->config, loaded->weights, NULL, NULL, &loaded->model, &error), &error);
}

static void unload(struct loaded *loaded)
{
    model_close(loaded->model);
    weights_close(loaded->calls);
    weights_close(loaded->weights);
    free(loaded->calls_bytes);
    free(loaded->weights_bytes);
    model_config_free(&loaded->config);
    engine_close(loaded->engine);
}

static double relative_l2(int64_t n, const float *found, const float *expected)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += ((double)found[i] - expected[i]) * ((double)found[i] - expected[i]);
        norm += (double)expected[i] * expected[i];
    }
    return difference == 0 ? 0 : sqrt(difference / norm);
}

/* Runs the items one after another, the last one first. Each result must agree with the result in the batch, as the
 * head of this file describes. */
static void compare_alone(const struct loaded *loaded, struct forward_call *call)
{
    struct error error;
    float *together[CALL_OUTPUTS];
    int64_t count = call->n_items < ITEMS_ALONE ? call->n_items : ITEMS_ALONE, first = call->n_items - count;
    for (int i = 0; i < call->n_outputs; i++) {
        together[i] = call->outputs[i].found;
        call->outputs[i].found = calloc((size_t)call->outputs[i].elements, sizeof *together[i]);
    }
    for (int64_t b = call->n_items - 1; b >= first; b--) {
        struct engine_item *item = &call->items[b];
        item->output = call->outputs[0].found + b * (call->outputs[0].elements / call->n_items);
        for (int i = 1; i < call->n_outputs; i++)
            call->extras[b][i - 1].data = call->outputs[i].found + b * (call->outputs[i].elements / call->n_items);
        must(model_run(loaded->model, 0, item, 1, &error), &error);
    }
    for (int i = 0; i < call->n_outputs; i++) {
        int64_t elements = call->outputs[i].elements / call->n_items; /* elements of the output of one item */
        const float *alone = call->outputs[i].found + first * elements, *batch = together[i] + first * elements;
        double distance = relative_l2(count * elements, alone, batch);
        if (model_info(loaded->model)->batch_invariant)
            assert_memory_equal(alone, batch, (size_t)(count * elements) * sizeof *alone);
        else if (!(distance <= ALONE_TOLERANCE))
            fail_msg("alone %.2g from it in the batch, %.2g is allowed", distance, (double)(ALONE_TOLERANCE));
        free(together[i]);
    }
}

static void run_call(const struct loaded *loaded, const char *name, int index, struct forward_call *call)
{
    struct error error;
    for (int64_t b = 0; b < call->n_items; b++)
        must(model_check(loaded->model, &call->items[b], &error), &error);
    must(model_run(loaded->model, 0, call->items, call->n_items, &error), &error);
    for (int i = 0; i < call->n_outputs; i++) {
        const struct call_output *output = &call->outputs[i];
        double distance = relative_l2(output->elements, output->found, output->expected);
        print_message("%s call %d %s: relative L2 error %.2g\n", name, index,
                      model_info(loaded->model)->outputs[output->index], distance);
        assert_true(distance <= TOLERANCE); /* false for NaN, too */
    }
    compare_alone(loaded, call);
}

/* Counts the outputs of the file, because each must be compared. */
static int64_t count_outputs(const struct loaded *loaded)
{
    int64_t count = 0;
    for (size_t i = 0; i < weights_count(loaded->calls); i++)
        count += strstr(weights_at(loaded->calls, i)->name, "/out/") != NULL;
    return count;
}

/* If a device fails or refuses a batch, the CPU computes the batch, and the test would not notice this. This function
 * therefore expects that the CPU computed no batch for a device. */
static void assert_nothing_ran_elsewhere(const struct engine *engine)
{
    struct engine_device devices[ENGINE_MAX_DEVICES];
    int count = engine_devices(engine, devices, ENGINE_MAX_DEVICES);
    const char *kind = DEVICE == DEVICE_CPU ? "cpu" : "cuda";
    assert_true(count > 0);
    for (int i = 0; i < count; i++) {
        assert_int_equal(strncmp(devices[i].name, kind, strlen(kind)), 0);
        assert_int_equal(devices[i].faults, 0);
    }
    assert_int_equal(engine_counts(engine).standby_batches, 0);
}

static void test_case(void **state)
{
    const char *name = *state;
    struct loaded loaded;
    load(name, &loaded);
    int index = 0;
    int64_t outputs = 0;
    struct forward_call call;
    for (; call_prepare(loaded.model, loaded.calls, index, &call); index++) {
        run_call(&loaded, name, index, &call);
        outputs += call.n_outputs;
        call_free(&call);
    }
    assert_true(index > 0);
    assert_int_equal(outputs, count_outputs(&loaded));
    assert_nothing_ran_elsewhere(loaded.engine);
    unload(&loaded);
}

int main(void)
{
    files = case_files_open(CASES);
    size_t count = files ? case_files_count(files) : 0;
    if (count < MIN_CASES) {
        fprintf(stderr, "%zu cases in " CASES ", expected %d: run from the root of the repository\n", count, MIN_CASES);
        return 1;
    }
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    for (size_t i = 0; i < count; i++) {
        const char *name = case_files_name(files, i);
        tests[i] = (struct CMUnitTest){name, test_case, NULL, NULL, (void *)name};
    }
    int failed = _cmocka_run_group_tests("reference cases", tests, count, NULL, NULL);
    free(tests);
    case_files_close(files);
    return failed;
}
