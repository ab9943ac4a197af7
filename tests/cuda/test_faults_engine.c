/* The engine on the shim's devices: the choice of devices, models that do not fit, and calls of the CUDA runtime that
 * fail. After a failure, the tests check batches, models and devices. No test has a time limit. If a device must
 * recover, the test waits until the device works. */
#include "tests/unit/loaded.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h> /* needs the headers above */

#include "tests/cuda/faults.h"
#include "tests/cuda/schedules.h"

#define LENGTH 9
#define VOCABULARY 97
#define TOLERANCE 1e-4f
#define MAX_LANES 16

/* ---- Engines, models, batches ---- */

static atomic_int failures, recoveries, refusals, lasting; /* numbers of reported events */

static void report(void *context, const struct engine_event *event)
{
    (void)context;
    print_message("# %s: %s\n", event->device, event->failure ? event->failure : "works again");
    atomic_fetch_add(&lasting, event->lasts);
    atomic_fetch_add(!event->failure ? &recoveries : event->pause_ms > 0 ? &failures : &refusals, 1);
}

static struct engine_options options_for(const char *device)
{
    struct engine_options options = {.dtype = DTYPE_F32,
                                     .cuda_f32 = CUDA_F32_PLAIN, /* cuBLASLt computes the products, which can fail */
                                     .threads = 1,
                                     .max_batch_tokens = 64,
                                     .max_batch_requests = 2,
                                     .report = report};
    struct error error;
    must(device_choice_parse(device, &options.device, &error), &error);
    return options;
}

static struct loaded load_in(enum dtype dtype, const char *device)
{
    struct engine_options options = options_for(device);
    struct loaded loaded = {NULL, NULL};
    struct error error;
    options.dtype = dtype;
    must(load_with(&options, "linformer_lm", "", NULL, &loaded, &error), &error);
    return loaded;
}

static struct loaded load_on(const char *device)
{
    return load_in(DTYPE_F32, device);
}

/* Loads the model into an engine that has a model already. */
static struct model *load_second(struct engine *engine)
{
    struct model_config config;
    struct weights *weights;
    struct model *model;
    struct error error;
    must(model_config_read("tests/reference/linformer_lm/config.json", &config, &error), &error);
    must(weights_open("tests/reference/linformer_lm/model.safetensors", &weights, &error), &error);
    must(engine_load(engine, &config, weights, NULL, NULL, &model, &error), &error);
    weights_close(weights);
    model_config_free(&config);
    return model;
}

static struct engine_device device_of(const struct engine *engine, int index)
{
    struct engine_device devices[ENGINE_MAX_DEVICES];
    assert_true(engine_devices(engine, devices, ENGINE_MAX_DEVICES) > index);
    return devices[index];
}

static void pause_shortly(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void wait_for_devices(const struct engine *engine)
{
    struct engine_device devices[ENGINE_MAX_DEVICES];
    int count = engine_devices(engine, devices, ENGINE_MAX_DEVICES);
    for (int i = 0; i < count; i++)
        while (!device_of(engine, i).works)
            pause_shortly();
}

static float expected[LENGTH * VOCABULARY]; /* results of the CPU for the ids 1, 2, … */

static int run_on_lane(struct model *model, int lane, float output[LENGTH * VOCABULARY], struct error *error)
{
    int32_t ids[LENGTH];
    for (int i = 0; i < LENGTH; i++)
        ids[i] = i + 1;
    struct engine_item item = {.inputs[0] = {.data = ids, .length = LENGTH}, .output = output, .n_rows = LENGTH};
    return model_run(model, lane, &item, 1, error);
}

static void expect_result(struct model *model, int lane)
{
    float output[LENGTH * VOCABULARY];
    struct error error;
    memset(output, 0xff, sizeof output);
    must(run_on_lane(model, lane, output, &error), &error);
    for (int i = 0; i < LENGTH * VOCABULARY; i++)
        if (!(output[i] - expected[i] < TOLERANCE && expected[i] - output[i] < TOLERANCE))
            fail_msg("output %d is %g, expected %g", i, (double)output[i], (double)expected[i]);
}

static int setup(void **state)
{
    (void)state;
    unsetenv("SHIM_DEVICES");
    unsetenv("SHIM_DRIVER");
    unsetenv("SHIM_MEMORY");
    faults_set("");
    atomic_store(&failures, 0);
    atomic_store(&recoveries, 0);
    atomic_store(&refusals, 0);
    atomic_store(&lasting, 0);
    return 0;
}

/* ---- Which devices ---- */

static void expect_refused(const char *device, const char *message)
{
    struct engine_options options = options_for(device);
    struct engine *engine;
    struct error error;
    assert_int_equal(engine_open(&options, &engine, &error), -1);
    print_message("%s\n", error.message);
    assert_non_null(strstr(error.message, device));
    assert_non_null(strstr(error.message, message));
}

static void expect_devices(const char *device, const char *names, int count)
{
    struct engine_options options = options_for(device);
    struct engine_device devices[ENGINE_MAX_DEVICES];
    struct engine *engine;
    struct error error;
    must(engine_open(&options, &engine, &error), &error);
    assert_string_equal(engine_device(engine), names);
    assert_false(engine_is_on_cpu(engine));
    assert_null(engine_notice(engine));
    assert_int_equal(engine_devices(engine, devices, ENGINE_MAX_DEVICES), count);
    assert_int_equal(strncmp(names, devices[0].name, strlen(devices[0].name)), 0);
    engine_close(engine);
}

/* Opens an engine when there are more devices than an engine can use. */
static void expect_devices_left_out(void)
{
    struct engine_options options = options_for("cuda:all");
    struct engine_device devices[ENGINE_MAX_DEVICES];
    struct engine *engine;
    struct error error;
    char notice[80];
    snprintf(notice, sizeof notice, "cuda:all uses the first %d of %d devices", ENGINE_MAX_DEVICES,
             ENGINE_MAX_DEVICES + 1);
    setenv("SHIM_DEVICES", (char[]){'0' + (ENGINE_MAX_DEVICES + 1) / 10, '0' + (ENGINE_MAX_DEVICES + 1) % 10, 0}, 1);
    must(engine_open(&options, &engine, &error), &error);
    assert_int_equal(engine_devices(engine, devices, ENGINE_MAX_DEVICES), ENGINE_MAX_DEVICES);
    assert_non_null(engine_notice(engine));
    print_message("%s\n", engine_notice(engine));
    assert_non_null(strstr(engine_notice(engine), notice));
    engine_close(engine);
    setenv("SHIM_DEVICES", "3", 1);
}

static void listed_devices_are_used_and_missing_ones_refused(void **state)
{
    (void)state;
    setenv("SHIM_DEVICES", "3", 1);
    expect_devices("cuda", "cuda:0", 1);
    expect_devices("auto", "cuda:0", 1);
    expect_devices("cuda:2", "cuda:2", 1);
    expect_devices("cuda:2,cuda:0", "cuda:2,cuda:0", 2);
    expect_devices("cuda:all", "cuda:0,cuda:1,cuda:2", 3);
    expect_devices_left_out();
    expect_refused("cuda:3", "there is no cuda:3; there are 3 CUDA devices, cuda:0 to cuda:2");
    expect_refused("cuda:0,cuda:999", "there is no cuda:999; there are 3 CUDA devices");
    unsetenv("SHIM_DEVICES");
    expect_refused("cuda:1", "there is no cuda:1; there is one CUDA device, cuda:0");
}

/* The reasons not to use the device: No device exists. The driver is missing or too old. The device cannot be opened.
 * The kernels are not compiled for the device. */
static void without_a_device_auto_is_the_cpu(void **state)
{
    (void)state;
    static const struct {
        const char *devices, *driver, *rules, *message;
    } rounds[] = {
        {"0", "13010", "", "no CUDA device"},
        {"1", "12020", "",
         "the NVIDIA driver is too old. It supports CUDA 12.2, and the engine was built with CUDA 13.1, which needs a "
         "driver for CUDA 13.0 or later"},
        {"1", "0", "", "no CUDA device: CUDA driver version is insufficient"},
        {"1", "13000", "open 1 0 2\n", "cuda:0: cannot create a stream on the CUDA device: out of memory"},
        {"1", "13010", "kernel 1 0 209\n",
         "cuda:0: shim, compute capability 0.0, cuBLASLt 0: the CUDA engine was not compiled for this device: "
         "no kernel image"},
    };
    for (size_t round = 0; round < sizeof rounds / sizeof *rounds; round++) {
        setenv("SHIM_DEVICES", rounds[round].devices, 1);
        setenv("SHIM_DRIVER", rounds[round].driver, 1);
        faults_set(rounds[round].rules);
        expect_refused("cuda", rounds[round].message);
        struct loaded loaded = load_on("auto");
        assert_string_equal(engine_device(loaded.engine), "cpu");
        assert_true(engine_is_on_cpu(loaded.engine));
        print_message("%s\n", engine_notice(loaded.engine));
        assert_non_null(strstr(engine_notice(loaded.engine), rounds[round].message));
        assert_string_equal(model_info(loaded.model)->device, "cpu");
        assert_null(model_info(loaded.model)->notice);
        expect_result(loaded.model, 0);
        unload(&loaded);
    }
}

/* With "cuda", a model that does not fit is refused. With "auto", the model runs on the CPU. */
static void a_model_that_does_not_fit_is_refused_or_on_the_cpu(void **state)
{
    (void)state;
    struct engine_options options = options_for("cuda");
    struct loaded loaded = {NULL, NULL};
    struct error error;
    setenv("SHIM_MEMORY", "100000000", 1);
    assert_int_equal(load_with(&options, "linformer_lm", "", NULL, &loaded, &error), 0);
    unload(&loaded);

    for (int malloc = 2; malloc < 5; malloc++) { /* memory for the arena, for scratch, and for inputs */
        faults_set(malloc == 2 ? "malloc 2 1 2\n" : malloc == 3 ? "malloc 3 1 2\n" : "malloc 4 1 2\n");
        loaded = (struct loaded){NULL, NULL};
        assert_int_equal(load_with(&options, "linformer_lm", "", NULL, &loaded, &error), -1);
        print_message("%s\n", error.message);
        assert_non_null(strstr(error.message, "cuda:0: "));
        assert_non_null(strstr(error.message, "out of memory"));
        assert_true(malloc > 2 || strstr(error.message, "64 rows (--max-batch-tokens) and 2 sequences"));
        unload(&loaded);
    }

    faults_set("malloc 4 1 2\n");
    loaded = load_in(DTYPE_AUTO, "auto");
    assert_string_equal(engine_device(loaded.engine), "cuda:0");
    assert_int_equal(engine_dtype(loaded.engine), DTYPE_BF16);
    assert_string_equal(model_info(loaded.model)->device, "cpu");
    assert_true(model_info(loaded.model)->is_on_cpu);
    assert_int_equal(model_info(loaded.model)->dtype, DTYPE_F32);
    assert_int_equal(model_info(loaded.model)->first_lane, 0);
    assert_int_equal(model_info(loaded.model)->n_lanes, 1);
    assert_non_null(strstr(model_info(loaded.model)->notice, "out of memory"));
    expect_result(loaded.model, 0);
    assert_int_equal(engine_counts(loaded.engine).standby_batches, 0);
    assert_true(device_of(loaded.engine, 0).works);
    struct model *second = load_second(loaded.engine); /* no rule refuses its memory */
    assert_string_equal(model_info(second)->device, "cuda:0");
    model_close(second);
    unload(&loaded);

    setenv("SHIM_MEMORY", "100000", 1);
    loaded = load_on("auto");
    assert_string_equal(model_info(loaded.model)->device, "cpu");
    unload(&loaded);
}

/* ---- Faults ---- */

/* If a batch fails on the device, its result must still be correct. The device must recover, and run the next
 * batches. */
static void expect_one_fault(const char *rules)
{
    struct loaded loaded = load_on("cuda");
    assert_string_equal(model_info(loaded.model)->device, "cuda:0");
    assert_false(model_info(loaded.model)->is_on_cpu);
    assert_int_equal(model_info(loaded.model)->first_lane, 1);
    expect_result(loaded.model, 0);
    assert_int_equal(engine_counts(loaded.engine).standby_batches, 0);
    faults_set(rules);
    expect_result(loaded.model, 0);
    assert_int_equal(device_of(loaded.engine, 0).faults, 1);
    wait_for_devices(loaded.engine);
    assert_int_equal(device_of(loaded.engine, 0).recoveries, 1);
    expect_result(loaded.model, 0);
    assert_int_equal(engine_counts(loaded.engine).reruns, 1);
    assert_int_equal(engine_counts(loaded.engine).standby_batches, 1);
    unload(&loaded);
}

/* The second batch of a batch shape is captured as a graph before it is launched. A failing capture does not count as a
 * fault of the device. Therefore some rules make two calls fail. */
static void faults_of_all_calls_change_no_result(void **state)
{
    (void)state;
    expect_one_fault("copy 1 1 700\n");
    expect_one_fault("copy 2 1 700 sticky\n");
    expect_one_fault("launch 1 2 2\n");
    expect_one_fault("launch 9 1 700 sticky\n");
    expect_one_fault("product 1 2 700\n");
    expect_one_fault("product 2 1 700 sticky\n");
    expect_one_fault("synchronize 1 1 700\n");
    expect_one_fault("synchronize 1 1 700 sticky\n");
    assert_int_equal(atomic_load(&failures), 8);
    assert_int_equal(atomic_load(&recoveries), 8);
}

/* After a fault, the CPU computes in float32 for each dtype of the device. */
static void the_cpu_replaces_a_device_of_any_dtype(void **state)
{
    (void)state;
    static const enum dtype dtypes[] = {DTYPE_AUTO, DTYPE_BF16, DTYPE_F16, DTYPE_TF32};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        faults_set("");
        struct loaded loaded = load_in(dtypes[i], "cuda");
        assert_int_equal(model_info(loaded.model)->dtype, i == 0 ? DTYPE_BF16 : dtypes[i]);
        faults_set("synchronize 1 1 700\nopen 1 0 2\n");
        expect_result(loaded.model, 0);
        expect_result(loaded.model, 0);
        assert_int_equal(engine_counts(loaded.engine).standby_batches, 2);
        unload(&loaded);
    }
}

/* ---- Refusals ---- */

#define QUERIES 5
#define VALUES 14
#define PROJECTED 8
#define MAX_COLUMNS 64
#define MAX_ITEMS 4

static struct loaded load_masked(const char *device)
{
    struct engine_options options = options_for(device);
    struct loaded loaded = {NULL, NULL};
    struct error error;
    options.max_batch_requests = MAX_ITEMS;
    must(load_with(&options, "keras_", "attention_mask", NULL, &loaded, &error), &error);
    assert_true(model_info(loaded.model)->output_columns <= MAX_COLUMNS);
    return loaded;
}

/* Runs a batch of items with query and value, but without key. The mask (QUERIES, PROJECTED) of each item hides every
 * third score. */
static void run_masked(struct model *model, int n_items, float (*outputs)[QUERIES * MAX_COLUMNS])
{
    struct engine_item items[MAX_ITEMS];
    float numbers[VALUES * MAX_COLUMNS];
    uint8_t mask[QUERIES * PROJECTED];
    struct error error;
    for (int i = 0; i < VALUES * MAX_COLUMNS; i++)
        numbers[i] = (float)(i % 17) / 16 - 0.5f;
    for (int i = 0; i < QUERIES * PROJECTED; i++)
        mask[i] = i % 3 != 0;
    for (int i = 0; i < n_items; i++) {
        items[i] = (struct engine_item){.inputs[0] = {.data = numbers, .length = QUERIES},
                                        .inputs[1] = {.data = numbers, .length = VALUES},
                                        .inputs[3] = {.data = mask, .length = QUERIES, .columns = PROJECTED},
                                        .output = outputs[i],
                                        .n_rows = QUERIES};
        must(model_check(model, &items[i], &error), &error);
    }
    must(model_run(model, 0, items, n_items, &error), &error);
}

static void expect_masked(struct model *model, int n_items, const float *wanted)
{
    float outputs[MAX_ITEMS][QUERIES * MAX_COLUMNS];
    memset(outputs, 0xff, sizeof outputs);
    run_masked(model, n_items, outputs);
    for (int64_t i = 0; i < n_items * QUERIES * model_info(model)->output_columns; i++) {
        int64_t item = i / (QUERIES * model_info(model)->output_columns);
        int64_t place = i % (QUERIES * model_info(model)->output_columns);
        float output = outputs[item][place];
        if (!(output - wanted[place] < TOLERANCE && wanted[place] - output < TOLERANCE))
            fail_msg("output %lld of item %lld is %g, expected %g", (long long)place, (long long)item, (double)output,
                     (double)wanted[place]);
    }
}

/* Expects that `count` batches were run again on the CPU, and that the device has no fault. */
static void expect_refusals(const struct engine *engine, int64_t count)
{
    assert_true(device_of(engine, 0).works);
    assert_int_equal(device_of(engine, 0).faults, 0);
    assert_int_equal(engine_counts(engine).reruns, count);
    assert_int_equal(engine_counts(engine).standby_batches, count);
    assert_int_equal(atomic_load(&refusals), count > 0); /* only the first refusal is reported */
    assert_int_equal(atomic_load(&failures), 0);
}

/* cuBLASLt refuses products while the model is loaded, in the first batch, or in the second batch. In the second batch,
 * it refuses a product during the capture of a graph, and a product at the launch after the capture. The device must
 * compute without cuBLASLt. */
static void refused_products_run_without_cublaslt(void **state)
{
    (void)state;
    static const char *const rules[][3] = {
        {"epilogue 1 0 801\n", "", ""}, {"algorithm 1 0 801\n", "", ""}, {"", "product 1 1 801\n", ""},
        {"", "product 1 2 801\n", ""},  {"", "product 3 1 801\n", ""},   {"", "", "product 1 2 801\n"},
        {"", "", "product 2 2 801\n"},
    };
    struct loaded loaded = load_on("cuda");
    unload(&loaded); /* makes the shim read the previous rules before they are replaced */
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        faults_set(rules[i][0]);
        loaded = load_on("cuda");
        for (int batch = 0; batch < 5; batch++) {
            if (batch < 2 && rules[i][1 + batch][0] != '\0')
                faults_set(rules[i][1 + batch]);
            expect_result(loaded.model, batch % 2);
            expect_refusals(loaded.engine, 0);
        }
        unload(&loaded);
    }
}

/* The device fails at the moment when cuBLASLt refuses a product. The failure must count as a fault of the device, not
 * as a refusal. In the second case, an earlier launch has failed. */
static void a_fault_that_looks_like_a_refusal_is_a_fault(void **state)
{
    (void)state;
    static const char *const rules[] = {"product 1 1 801 sticky\n", "product 1 1 801\nsynchronize 1 1 700\n"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct loaded loaded = load_on("cuda");
        faults_set(rules[i]);
        expect_result(loaded.model, 0);
        assert_int_equal(device_of(loaded.engine, 0).faults, 1);
        assert_int_equal(atomic_load(&refusals), 0);
        wait_for_devices(loaded.engine);
        expect_result(loaded.model, 0);
        assert_int_equal(engine_counts(loaded.engine).reruns, 1);
        unload(&loaded);
    }
}

/* Computes the expected results on the CPU. */
static void find_wanted(float (*wanted)[QUERIES * MAX_COLUMNS])
{
    struct loaded loaded = load_masked("cpu");
    run_masked(loaded.model, 1, wanted);
    unload(&loaded);
}

/* An allocation of memory for masks fails, on the device or in pinned memory. For the next batch with masks, the
 * allocation succeeds. */
static void masks_without_memory_run_on_the_cpu(void **state)
{
    (void)state;
    static const char *const rules[] = {"malloc 1 1 2\n", "host 1 1 2\n"};
    float wanted[1][QUERIES * MAX_COLUMNS];
    struct loaded loaded;
    find_wanted(wanted);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        atomic_store(&refusals, 0);
        loaded = load_masked("cuda");
        assert_string_equal(model_info(loaded.model)->device, "cuda:0");
        faults_set(rules[i]);
        for (int batch = 0; batch < 3; batch++) {
            expect_masked(loaded.model, 1, wanted[0]);
            expect_refusals(loaded.engine, 1);
        }
        unload(&loaded);
    }
}

/* The allocation of memory for twice as many masks as before fails. The next allocation, of just enough memory for the
 * masks of the batch, succeeds. */
static void masks_with_little_memory_stay_on_the_device(void **state)
{
    (void)state;
    static const char *const rules[] = {"malloc 1 1 2\n", "host 1 1 2\n"};
    float wanted[1][QUERIES * MAX_COLUMNS];
    find_wanted(wanted);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct loaded loaded = load_masked("cuda");
        expect_masked(loaded.model, MAX_ITEMS - 1, wanted[0]);
        faults_set(rules[i]);
        for (int batch = 0; batch < 2; batch++) {
            expect_masked(loaded.model, MAX_ITEMS, wanted[0]);
            expect_refusals(loaded.engine, 0);
        }
        unload(&loaded);
    }
}

/* ---- Devices that stay away ---- */

/* The device cannot be opened again, or its models do not fit any more. The CPU runs all batches meanwhile. */
static void the_cpu_replaces_a_device_that_does_not_recover(void **state)
{
    (void)state;
    static const char *const rules[] = {"launch 1 1 700 sticky\nopen 1 0 2\n", "launch 1 1 2\nmalloc 2 0 2\n",
                                        "synchronize 1 0 700 sticky\n"};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct loaded loaded = load_on("cuda");
        int reported = atomic_load(&failures), attempts = i == 0 ? ENGINE_LASTING_ATTEMPTS + 1 : 2;
        faults_set(rules[i]);
        for (int64_t batch = 1; batch <= 5 || atomic_load(&failures) < reported + 1 + attempts; batch++) {
            expect_result(loaded.model, 0);
            assert_false(device_of(loaded.engine, 0).works);
            assert_int_equal(engine_counts(loaded.engine).standby_batches, batch);
            assert_int_equal(engine_counts(loaded.engine).reruns, 1);
            pause_shortly();
        }
        faults_set("");
        wait_for_devices(loaded.engine);
        int64_t batches = engine_counts(loaded.engine).standby_batches;
        expect_result(loaded.model, 0);
        assert_int_equal(engine_counts(loaded.engine).standby_batches, batches);
        assert_int_equal(atomic_load(&lasting), 1); /* five failed attempts are reported once */
        unload(&loaded);
    }
}

/* If a device cannot be selected (cudaSetDevice), another device is current in the thread that closes the device. This
 * other device must not be reset. */
static void a_device_that_cannot_be_selected_resets_no_other(void **state)
{
    (void)state;
    setenv("SHIM_DEVICES", "2", 1);
    struct loaded loaded = load_on("cuda:all");
    int n_lanes = model_info(loaded.model)->n_lanes, reported = atomic_load(&failures);
    faults_set("choose 1 0 46 device 1\n");
    do {
        for (int lane = 0; lane < n_lanes; lane++)
            expect_result(loaded.model, lane);
        assert_true(device_of(loaded.engine, 0).works);
        assert_int_equal(device_of(loaded.engine, 0).faults, 0);
        assert_false(device_of(loaded.engine, 1).works);
        pause_shortly();
    } while (atomic_load(&failures) < reported + 3);
    faults_set("");
    wait_for_devices(loaded.engine);
    int64_t batches = engine_counts(loaded.engine).standby_batches;
    for (int lane = 0; lane < n_lanes; lane++)
        expect_result(loaded.model, lane);
    assert_int_equal(engine_counts(loaded.engine).standby_batches, batches);
    unload(&loaded);
}

/* After a fault, both models leave the device. Both must return to it. */
static void two_models_leave_a_failed_device_and_return(void **state)
{
    (void)state;
    struct loaded first = load_on("cuda"), second = {first.engine, load_second(first.engine)};
    faults_set("synchronize 1 1 700 sticky\nmalloc 12 1 2\n"); /* at the first attempt to recover, the second model does
                                                                  not fit */
    expect_result(first.model, 0);
    expect_result(second.model, 0);
    wait_for_devices(first.engine);
    int64_t batches = engine_counts(first.engine).standby_batches;
    expect_result(second.model, 0);
    expect_result(first.model, 0);
    assert_int_equal(engine_counts(first.engine).standby_batches, batches);
    faults_set("copy 1 0 700 sticky\n");
    expect_result(second.model, 0);
    model_close(second.model); /* closes the model while the device does not work */
    unload(&first);
}

static void other_devices_work_on_when_one_fails(void **state)
{
    (void)state;
    setenv("SHIM_DEVICES", "2", 1);
    struct loaded loaded = load_on("cuda:all");
    int n_lanes = model_info(loaded.model)->n_lanes;
    uint64_t all = (UINT64_C(1) << n_lanes) - 1;
    assert_true(n_lanes >= 2 && n_lanes % 2 == 0 && n_lanes <= MAX_LANES);
    assert_int_equal(model_info(loaded.model)->first_lane, 1);
    assert_string_equal(model_info(loaded.model)->device, "cuda:0,cuda:1");
    for (int lane = 0; lane < n_lanes; lane++)
        expect_result(loaded.model, lane);
    assert_int_equal(model_ready_lanes(loaded.model), all);

    faults_set("launch 1 0 700 device 1\nopen 1 0 2 device 1\n");
    for (int lane = 0; lane < n_lanes; lane++)
        expect_result(loaded.model, lane);
    assert_true(device_of(loaded.engine, 0).works);
    assert_false(device_of(loaded.engine, 1).works);
    assert_int_equal(device_of(loaded.engine, 0).faults, 0);
    assert_int_equal(model_ready_lanes(loaded.model), all & 0x5555);

    faults_set("launch 1 0 700\nopen 1 0 2\n");
    for (int lane = 0; lane < n_lanes; lane++)
        expect_result(loaded.model, lane);
    assert_false(device_of(loaded.engine, 0).works);
    assert_int_equal(model_ready_lanes(loaded.model), 1);

    faults_set("");
    wait_for_devices(loaded.engine);
    assert_int_equal(model_ready_lanes(loaded.model), all);
    unload(&loaded);
}

/* ---- Many at once ---- */

#define ROUNDS 40

struct runner {
    pthread_t thread;
    struct model *model;
    int lane;
    int wrong;
};

static void *run_many(void *argument)
{
    struct runner *runner = argument;
    float output[LENGTH * VOCABULARY];
    struct error error;
    for (int round = 0; round < ROUNDS; round++) {
        memset(output, 0xff, sizeof output);
        int status = run_on_lane(runner->model, runner->lane, output, &error);
        for (int i = 0; i < LENGTH * VOCABULARY && status == 0; i++)
            if (!(output[i] - expected[i] < TOLERANCE && expected[i] - output[i] < TOLERANCE))
                status = -1;
        runner->wrong += status != 0;
    }
    return NULL;
}

/* About every 50th of the first 2000 launches fails, and some failures break the device. Meanwhile, all lanes run
 * batches. */
static void faults_on_all_lanes_change_no_result(void **state)
{
    (void)state;
    struct runner runners[MAX_LANES] = {0};
    setenv("SHIM_DEVICES", "2", 1);
    struct loaded loaded = load_on("cuda:all");
    int n_lanes = model_info(loaded.model)->n_lanes;
    assert_true(n_lanes <= MAX_LANES);
    char rules[4096] = "";
    for (int i = 1; i < 40; i++)
        sprintf(rules + strlen(rules), "launch %d 1 %d%s\n", 50 * i, i % 3 ? CUDA_ILLEGAL_ADDRESS : CUDA_OUT_OF_MEMORY,
                i % 2 ? " sticky" : "");
    faults_set(rules);
    for (int i = 0; i < n_lanes; i++) {
        runners[i].model = loaded.model;
        runners[i].lane = i;
        assert_int_equal(pthread_create(&runners[i].thread, NULL, run_many, &runners[i]), 0);
    }
    for (int i = 0; i < n_lanes; i++) {
        pthread_join(runners[i].thread, NULL);
        assert_int_equal(runners[i].wrong, 0);
    }
    struct engine_counts counts = engine_counts(loaded.engine);
    assert_true(counts.reruns > 0);
    assert_int_equal(counts.reruns, device_of(loaded.engine, 0).faults + device_of(loaded.engine, 1).faults);
    assert_true(counts.standby_batches >= counts.reruns);
    unload(&loaded); /* a device may not work at this moment */
}

static int begin(void **state)
{
    struct error error;
    faults_begin();
    setup(state);
    struct loaded loaded = load_on("cpu");
    must(run_on_lane(loaded.model, 0, expected, &error), &error);
    unload(&loaded);
    return 0;
}

static int end(void **state)
{
    (void)state;
    faults_end();
    return 0;
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

static int run_faults(void)
{
    const struct CMUnitTest tests[] = {
        TEST(listed_devices_are_used_and_missing_ones_refused),
        TEST(without_a_device_auto_is_the_cpu),
        TEST(a_model_that_does_not_fit_is_refused_or_on_the_cpu),
        TEST(faults_of_all_calls_change_no_result),
        TEST(the_cpu_replaces_a_device_of_any_dtype),
        TEST(refused_products_run_without_cublaslt),
        TEST(a_fault_that_looks_like_a_refusal_is_a_fault),
        TEST(masks_without_memory_run_on_the_cpu),
        TEST(masks_with_little_memory_stay_on_the_device),
        TEST(the_cpu_replaces_a_device_that_does_not_recover),
        TEST(a_device_that_cannot_be_selected_resets_no_other),
        TEST(two_models_leave_a_failed_device_and_return),
        TEST(other_devices_work_on_when_one_fails),
        TEST(faults_on_all_lanes_change_no_result),
    };
    return cmocka_run_group_tests_name("faults of devices", tests, begin, end);
}

int main(void)
{
    return run_schedules(run_faults);
}
