/* Tests of sequences that the engine reads in parts. The sequences of every reference case with slots are cut into
 * random parts, mostly of one row. Calls with a mask are left out. The requested rows of each part must agree with the
 * library's rows for the whole sequence. The parts of several sequences share batches with each other and with whole
 * items. The first slot is random. The same parts then run alone. Their last rows must have the same bits, if the model
 * is batch invariant. SEED repeats a run. tests/cuda/test_parts_cuda.c runs this file on the CUDA backend. */
#include "tests/unit/reference_calls.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CASES_FOLDER "tests/reference"
#define MIN_CASES 5 /* minimum number of cases whose sequences can be read in parts */
#define SLOTS 5
#define MAX_INPUT_ROWS 64
#ifndef DTYPE
#define DTYPE DTYPE_F32
#define TOLERANCE 1e-5
#endif
#ifndef DEVICE
#define DEVICE DEVICE_CPU
#endif
#ifndef ROUNDS
#define ROUNDS 6 /* number of repetitions of each call with other parts */
#endif
#ifndef ALONE_TOLERANCE
#define ALONE_TOLERANCE 0 /* maximum relative L2 distance between a result alone and in a batch */
#endif

struct loaded {
    struct engine *engine;
    struct model *model;
    struct model_config config;
    struct weights *weights, *calls;
};

static int cases_in_parts;

static void must(int result, const struct error *error)
{
    if (result != 0)
        fail_msg("%s", error->message);
}

static void load(const char *name, int64_t slots, struct loaded *loaded)
{
    struct error error;
    char path[512];
    struct engine_options options = {.device = {DEVICE},
                                     .dtype = DTYPE,
                                     .threads = 2,
                                     .all_threads = true,
                                     .max_batch_tokens = 256,
                                     .max_batch_requests = CALL_ITEMS,
                                     .max_slots = slots};
    must(engine_open(&options, &loaded->engine, &error), &error);
    snprintf(path, sizeof path, CASES_FOLDER "/%s/config.json", name);
    must(model_config_read(path, &loaded->config, &error), &error);
    snprintf(path, sizeof path, CASES_FOLDER "/%s/model.safetensors", name);
    must(weights_open(path, &loaded->weights, &error), &error);
    snprintf(path, sizeof path, CASES_FOLDER "/%s/calls.safetensors", name);
    must(weights_open(path, &loaded->calls, &error), &error);
    must(weights_read(loaded->calls, &error), &error);
    must(engine_load(loaded->engine, &loaded->config, loaded->weights, NULL, NULL, &loaded->model, &error), &error);
}

/* Expects that the CPU computed no batch for a device. If a device fails or refuses a batch, the CPU computes the
 * batch, and the test would not notice this. */
static void unload(struct loaded *loaded)
{
    assert_int_equal(engine_counts(loaded->engine).standby_batches, 0);
    model_close(loaded->model);
    weights_close(loaded->calls);
    weights_close(loaded->weights);
    model_config_free(&loaded->config);
    engine_close(loaded->engine);
}

/* Returns the index of the input that is read in parts: "tgt" if the model has two sequences, otherwise the first
 * input. */
static int sequence_input(const struct model_info *info)
{
    for (int i = 0; i < info->n_inputs; i++)
        if (strcmp(info->inputs[i].name, "tgt") == 0)
            return i;
    return 0;
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

/* A sequence in slot `slot`, whose first `done` rows have been computed. */
struct progress {
    const struct engine_item *whole;
    int64_t slot, done, length;
    const float *expected; /* (length, columns): the library's rows */
    struct engine_item part;
    int32_t wanted[MAX_INPUT_ROWS];      /* indices of the requested rows of the part */
    float *found;                        /* (number of requested rows, columns): results of the part */
    int64_t parts, rows[MAX_INPUT_ROWS]; /* number of computed parts, number of rows of each part */
    float *all_found; /* (parts, columns): the last row of each part, zeros if it was not requested */
};

/* Chooses the number of rows of the next part: mostly 1, sometimes up to 30, and at most the remaining rows. */
static int64_t choose_rows(const struct progress *p)
{
    int64_t rows = rand() % 3 > 0 ? 1 : 1 + rand() % 30;
    return rows < p->length - p->done ? rows : p->length - p->done;
}

/* Which rows of a part are requested. set_part makes the item of the next part, and requests these rows. */
enum wanted { NO_ROW, LAST_ROW, ALL_ROWS };
static void set_part(const struct model_info *info, struct progress *p, enum wanted wanted)
{
    int sequence = sequence_input(info);
    int64_t rows = p->rows[p->parts] ? p->rows[p->parts] : choose_rows(p);
    p->rows[p->parts] = rows;
    memset(&p->part, 0, sizeof p->part);
    for (int i = 0; p->done == 0 && i < info->n_inputs; i++)
        p->part.inputs[i] = p->whole->inputs[i];
    p->part.inputs[sequence].data = (const int32_t *)p->whole->inputs[sequence].data + p->done;
    p->part.inputs[sequence].length = rows;
    p->part.slot = p->slot;
    p->part.first = p->done;
    for (int64_t i = 0; i < rows; i++)
        p->wanted[i] = (int32_t)i;
    if (wanted != NO_ROW) {
        p->part.output = p->found;
        p->part.n_rows = wanted == ALL_ROWS ? rows : 1;
        p->part.rows = p->wanted + rows - p->part.n_rows;
    }
}

/* Runs the same parts in another slot, each alone in its batch. The last row of a part must be within ALONE_TOLERANCE
 * if it was requested before. On the CPU, only models that are batch invariant are compared. */
static void repeat_alone(const struct loaded *loaded, const struct progress *done)
{
    struct error error;
    const struct model_info *info = model_info(loaded->model);
    int64_t columns = info->output_columns;
    struct progress p = *done;
    p.slot = SLOTS + 1;
    p.done = p.parts = 0;
    p.found = calloc((size_t)columns, sizeof(float));
    for (; p.done < p.length; p.done += p.rows[p.parts++]) {
        set_part(info, &p, LAST_ROW);
        must(model_run(loaded->model, 0, &p.part, 1, &error), &error);
        const float *together = p.all_found + p.parts * columns;
        if (together[0] != 0 && (info->batch_invariant || DEVICE != DEVICE_CPU))
            assert_true(relative_l2(columns, p.found, together) <= ALONE_TOLERANCE);
    }
    free(p.found);
}

static void run_round(const struct loaded *loaded, const struct forward_call *call)
{
    struct error error;
    const struct model_info *info = model_info(loaded->model);
    int sequence = sequence_input(info);
    int64_t columns = info->output_columns, n = call->n_items;
    struct progress all[CALL_ITEMS];
    int first_slot = rand();
    for (int64_t i = 0; i < n; i++)
        all[i] = (struct progress){.whole = &call->items[i],
                                   .slot = 1 + (first_slot % SLOTS + i) % SLOTS,
                                   .length = call->items[i].inputs[sequence].length,
                                   .expected = call->outputs[0].expected + i * call->outputs[0].elements / n,
                                   .found = calloc((size_t)(MAX_INPUT_ROWS * columns), sizeof(float)),
                                   .all_found = calloc((size_t)(MAX_INPUT_ROWS * columns), sizeof(float))};
    for (bool more = true; more;) {
        struct engine_item items[CALL_ITEMS + 1];
        struct progress *of[CALL_ITEMS + 1] = {NULL};
        int64_t count = 0;
        bool with_whole = rand() % 3 == 0;
        if (with_whole)
            items[count++] = call->items[0]; /* a whole item, whose results are computed again */
        for (int64_t i = 0; i < n; i++) {
            if (all[i].done == all[i].length || rand() % 4 == 0) /* some sequences are not in this batch */
                continue;
            set_part(info, &all[i], (enum wanted)(rand() % 3));
            must(model_check(loaded->model, &all[i].part, &error), &error);
            of[count] = &all[i];
            items[count++] = all[i].part;
        }
        if (count > 0)
            must(model_run(loaded->model, 0, items, count, &error), &error);
        for (int64_t i = 0; i < count; i++) {
            struct progress *p = of[i];
            if (!p)
                continue;
            p->done += p->part.inputs[sequence].length;
            int64_t wanted = p->part.n_rows, first = p->done - wanted;
            double distance = relative_l2(wanted * columns, p->found, p->expected + first * columns);
            if (wanted > 0 && !(distance <= TOLERANCE))
                fail_msg("%lld rows up to %lld are %.2g from the library's", (long long)wanted, (long long)p->done - 1,
                         distance);
            if (wanted > 0) /* otherwise all_found keeps its zeros */
                memcpy(p->all_found + p->parts * columns, p->found + (wanted - 1) * columns,
                       (size_t)columns * sizeof(float));
            p->parts++;
        }
        more = false;
        for (int64_t i = 0; i < n; i++)
            more |= all[i].done < all[i].length;
    }
    for (int64_t i = 0; i < n; i++) {
        repeat_alone(loaded, &all[i]);
        free(all[i].found);
        free(all[i].all_found);
    }
}

/* Whether the call has a mask over the sequence. Sequences in parts cannot have masks. */
static bool has_mask(const struct model_info *info, const struct forward_call *call)
{
    for (int i = 0; i < info->n_inputs; i++)
        if (info->inputs[i].kind == INPUT_MASK && info->inputs[i].like == sequence_input(info) &&
            call->items[0].inputs[i].data)
            return true;
    return false;
}

static void test_case(void **state)
{
    struct loaded loaded;
    struct forward_call call;
    load(*state, SLOTS + 1, &loaded);
    const struct model_info *info = model_info(loaded.model);
    if (info->n_slots > 0)
        cases_in_parts++;
    for (int index = 0; info->n_slots > 0 && call_prepare(loaded.model, loaded.calls, index, &call); index++) {
        for (int round = 0; round < ROUNDS && !has_mask(info, &call); round++)
            run_round(&loaded, &call);
        call_free(&call);
    }
    unload(&loaded);
}

static void test_enough_cases_were_compared(void **state)
{
    (void)state;
    assert_in_range(cases_in_parts, MIN_CASES, 100);
}

static int is_case(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && !strchr(entry->d_name, '.');
}

int main(void)
{
    struct dirent **entries;
    unsigned seed = getenv("SEED") ? (unsigned)strtoul(getenv("SEED"), NULL, 10) : 15;
    printf("SEED=%u\n", seed);
    srand(seed);
    int count = scandir(CASES_FOLDER, &entries, is_case, alphasort);
    if (count < 1)
        return 1;
    struct CMUnitTest *tests = calloc((size_t)count + 1, sizeof *tests);
    for (int i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){entries[i]->d_name, test_case, NULL, NULL, entries[i]->d_name};
    tests[count] = (struct CMUnitTest)cmocka_unit_test(test_enough_cases_were_compared);
    int failed = _cmocka_run_group_tests("sequences in parts", tests, (size_t)count + 1, NULL, NULL);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    free(tests);
    return failed;
}
