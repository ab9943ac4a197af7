/* Sequences whose rows come in several batches, while devices fail. The states of the sequences on a failed device are
 * computed again, on the CPU or on the recovered device. The last row of each batch must be correct. */
#include "engine/engine.h"
#include "tests/cuda/faults.h"
#include "tests/unit/loaded.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

enum { LENGTH = 24, VOCABULARY = 64, MAX_SLOTS = 2 };
#define TOLERANCE 1e-4f

static int32_t ids[LENGTH], source[LENGTH];
static float expected[LENGTH * VOCABULARY]; /* results of the CPU for the whole sequence */
static float found[VOCABULARY];

static struct engine_options options_of(struct device_choice device)
{
    return (struct engine_options){.device = device,
                                   .dtype = DTYPE_F32,
                                   .threads = 1,
                                   .max_batch_tokens = 128,
                                   .max_batch_requests = 2,
                                   .max_slots = MAX_SLOTS};
}

static struct loaded load_on(enum device_kind device, const char *name)
{
    struct engine_options options = options_of((struct device_choice){.kind = device});
    struct loaded loaded = {NULL, NULL};
    struct error error;
    must(load_with(&options, "", name, NULL, &loaded, &error), &error);
    assert_int_equal(model_info(loaded.model)->n_slots, MAX_SLOTS);
    assert_in_range(model_info(loaded.model)->output_columns, 1, VOCABULARY);
    return loaded;
}

/* Returns an item with all inputs. The sequence consists of the first `length` ids. */
static struct engine_item whole_of(const struct loaded *loaded, int64_t length)
{
    const struct model_info *info = model_info(loaded->model);
    struct engine_item item = {.slot = 0};
    if (info->sequence_input > 0) {
        item.inputs[0].data = source;
        item.inputs[0].length = LENGTH;
    }
    item.inputs[info->sequence_input].data = ids;
    item.inputs[info->sequence_input].length = length;
    return item;
}

static void expect_whole(const char *name)
{
    struct loaded cpu = load_on(DEVICE_CPU, name);
    struct engine_item item = whole_of(&cpu, LENGTH);
    struct error error;
    item.output = expected;
    item.n_rows = LENGTH;
    must(model_check(cpu.model, &item, &error), &error);
    must(model_run(cpu.model, 0, &item, 1, &error), &error);
    unload(&cpu);
}

/* Runs the ids [first, first + rows) in slot 1, and compares the results of the last row. */
static void run_part(const struct loaded *loaded, int64_t first, int64_t rows)
{
    const struct model_info *info = model_info(loaded->model);
    struct engine_item earlier = whole_of(loaded, first), part = {.slot = 1, .first = first};
    struct error error;
    int32_t last = (int32_t)rows - 1;
    if (first == 0)
        part = whole_of(loaded, rows);
    part.slot = 1;
    part.earlier = &earlier;
    part.inputs[info->sequence_input].data = ids + first;
    part.inputs[info->sequence_input].length = rows;
    part.output = found;
    part.rows = &last;
    part.n_rows = 1;
    must(model_check(loaded->model, &part, &error), &error);
    must(model_run(loaded->model, (int)(first % info->n_lanes), &part, 1, &error), &error);
    const float *row = expected + (first + rows - 1) * info->output_columns;
    for (int64_t i = 0; i < info->output_columns; i++)
        if (!(fabsf(found[i] - row[i]) <= TOLERANCE))
            fail_msg("row %d: column %d is %g, expected %g", (int)(first + rows - 1), (int)i, (double)found[i],
                     (double)row[i]);
}

static void wait_for_device(const struct engine *engine)
{
    struct engine_device device = {.works = false};
    while (!device.works) {
        engine_devices(engine, &device, 1);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
}

static void set_ids(void)
{
    for (int i = 0; i < LENGTH; i++) {
        ids[i] = 1 + 7 * i % 40;
        source[i] = 1 + 11 * i % 40;
    }
}

/* The device fails at a batch of a single row, recovers, and fails at a batch of several rows. */
static void test_sequences_continue_when_their_device_fails(void **state)
{
    set_ids();
    faults_set("");
    expect_whole(*state);
    struct loaded loaded = load_on(DEVICE_CUDA, *state);
    run_part(&loaded, 0, 5);
    run_part(&loaded, 5, 1);
    run_part(&loaded, 6, 1);
    assert_int_equal(engine_counts(loaded.engine).standby_batches, 0);
    faults_set("launch 3 1 700 sticky\nopen 1 1 2\n");
    run_part(&loaded, 7, 1); /* runs on the CPU */
    run_part(&loaded, 8, 2);
    assert_in_range(engine_counts(loaded.engine).standby_batches, 1, 2);
    wait_for_device(loaded.engine);
    uint64_t standby = (uint64_t)engine_counts(loaded.engine).standby_batches;
    run_part(&loaded, 10, 1); /* runs on the device */
    run_part(&loaded, 11, 3);
    assert_int_equal(engine_counts(loaded.engine).standby_batches, standby);
    faults_set("synchronize 1 1 700\n"); /* the device fails when the states already contain these rows */
    run_part(&loaded, 14, 4);
    wait_for_device(loaded.engine);
    run_part(&loaded, 18, 1);
    run_part(&loaded, 19, 5);
    assert_int_equal(engine_counts(loaded.engine).standby_batches, standby + 1);
    unload(&loaded);
}

/* If an item lacks the earlier rows, and their states are lost, the batch fails. Afterwards, the slot can begin another
 * sequence. */
static void test_a_sequence_whose_states_are_lost_fails(void **state)
{
    struct error error;
    set_ids();
    faults_set("");
    expect_whole(*state);
    struct loaded loaded = load_on(DEVICE_CUDA, *state);
    run_part(&loaded, 0, 5);
    faults_set("launch 1 1 700 sticky\n");
    struct engine_item part = {.slot = 1, .first = 5};
    part.inputs[model_info(loaded.model)->sequence_input].data = ids + 5;
    part.inputs[model_info(loaded.model)->sequence_input].length = 1;
    must(model_check(loaded.model, &part, &error), &error);
    assert_int_equal(model_run(loaded.model, 0, &part, 1, &error), -1);
    print_message("%s\n", error.message);
    assert_non_null(strstr(error.message, "the first 5 rows of a sequence"));
    wait_for_device(loaded.engine);
    run_part(&loaded, 0, 4);
    run_part(&loaded, 4, 1);
    unload(&loaded);
}

/* Makes each allocation of device memory fail in turn while a model is loaded. Only one of them is for the slots, which
 * store the states of sequences. */
static void test_missing_memory_for_slots_is_named(void **state)
{
    (void)state;
    int named = 0;
    for (int call = 2; call < 16; call++) { /* the first allocation is that of engine_open */
        struct engine_options options = options_of((struct device_choice){.kind = DEVICE_CUDA});
        struct loaded loaded = {NULL, NULL};
        struct error error;
        char rules[64];
        snprintf(rules, sizeof rules, "malloc %d 1 2\n", call);
        faults_set(rules);
        if (load_with(&options, "", "linear_attention_lm_causal", NULL, &loaded, &error) != 0)
            named += strstr(error.message, "the states of 2 sequences (--max-generations)") != NULL;
        unload(&loaded);
    }
    assert_int_equal(named, 1);
    faults_set("");
}

/* Each device stores the states of its own sequences. run_part changes the device with each row, and each result must
 * be correct. The sequence in slot 2 stays on one device, so it does not need its earlier rows again. */
static void test_sequences_that_change_devices_stay_correct(void **state)
{
    struct engine_options options = options_of((struct device_choice){.kind = DEVICE_CUDA, .all = true});
    struct loaded loaded = {NULL, NULL};
    struct error error;
    set_ids();
    faults_set("");
    expect_whole(*state);
    setenv("SHIM_DEVICES", "2", 1);
    must(load_with(&options, "", *state, NULL, &loaded, &error), &error);
    const struct model_info *info = model_info(loaded.model);
    assert_int_equal(info->n_slots, MAX_SLOTS);
    assert_int_equal(info->n_devices, 2);
    assert_true(info->n_lanes >= 2 && info->n_lanes % 2 == 0);
    for (int64_t first = 0; first < LENGTH; first++) {
        run_part(&loaded, first, 1);
        struct engine_item part = first == 0 ? whole_of(&loaded, 1) : (struct engine_item){.first = first};
        int lane = (int)(first % (info->n_lanes / 2)) * 2 + 1; /* on the second device */
        part.slot = 2;
        part.inputs[info->sequence_input].data = ids + first;
        part.inputs[info->sequence_input].length = 1;
        part.output = found; /* without `earlier` rows, lost states would be an error */
        part.n_rows = 1;
        must(model_run(loaded.model, lane, &part, 1, &error), &error);
        for (int64_t i = 0; i < info->output_columns; i++)
            assert_true(fabsf(found[i] - expected[first * info->output_columns + i]) <= TOLERANCE);
    }
    assert_int_equal(engine_counts(loaded.engine).standby_batches, 0);
    unload(&loaded);
    unsetenv("SHIM_DEVICES");
}

int main(void)
{
    static char causal[] = "linear_attention_lm_causal_local_shift", pair[] = "linear_attention_encoder_decoder";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_sequences_continue_when_their_device_fails, causal),
        cmocka_unit_test_prestate(test_sequences_continue_when_their_device_fails, pair),
        cmocka_unit_test_prestate(test_a_sequence_whose_states_are_lost_fails, causal),
        cmocka_unit_test(test_missing_memory_for_slots_is_named),
        cmocka_unit_test_prestate(test_sequences_that_change_devices_stay_correct, causal),
        cmocka_unit_test_prestate(test_sequences_that_change_devices_stay_correct, pair),
    };
    faults_begin();
    int failed = cmocka_run_group_tests_name("sequences on failing devices", tests, NULL, NULL);
    faults_end();
    return failed;
}
