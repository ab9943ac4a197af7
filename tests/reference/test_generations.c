/* Tests that random causal models (tests/generation/random.tar.gz), and models of tests/reference, choose the ids that
 * the library chose. The model reads the recorded ids, so that an early difference does not change later rows:
 * - Four ways to compute the rows give the same logits within TOLERANCE. The first way is one batch with all rows. The
 *   second way is a batch for each row, and the third way a batch for each half. The fourth way is a batch for the
 *   prompt, and another one for a single further row.
 * - The largest logit of a row is that of the library's next id. If the sequence is longer than the model's longest
 *   input, the model reads only the last rows of the sequence.
 * - A model with slots reads its other inputs, for example those of an encoder, only with the first rows of a
 *   sequence. */
#include "tests/unit/case_files.h"

#include "engine/engine.h"
#include "tests/sanitized.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANDOM "tests/generation/random.tar.gz"
#define MIN_MODELS 100      /* minimum number of random models that read sequences in parts */
#define MIN_MODELS_AGAIN 28 /* minimum number of random models that read the whole sequence again for each token */
#define REFERENCE "tests/reference"
#define TOLERANCE 1e-5
#define MAX_ROWS 1024

struct loaded {
    struct engine *engine;
    struct model *model;
    struct model_config config;
    struct weights *weights;
    char *bytes;
};

/* A recorded run of the library with a model. */
struct run {
    const struct loaded *loaded;
    const struct model_info *info;
    struct engine_item given; /* contains the inputs other than the sequence */
    int32_t *ids;             /* (count): the prompt, then the library's ids */
    int64_t count, n_prompt;
    int64_t most;   /* maximum number of rows that the model reads at once */
    float *context; /* the rows of the input `context` or `embeddings` */
    int32_t *source;
};

static int models_in_parts, models_again;

static void must(int result, const struct error *error)
{
    if (result != 0)
        fail_msg("%s", error->message);
}

static void load(const struct case_files *files, const char *name, struct loaded *loaded)
{
    struct error error;
    size_t length;
    struct engine_options options = {.device = {DEVICE_CPU},
                                     .dtype = DTYPE_F32,
                                     .threads = 1,
                                     .max_batch_tokens = MAX_ROWS,
                                     .max_batch_requests = 4,
                                     .max_slots = 2};
    must(engine_open(&options, &loaded->engine, &error), &error);
    char *text = case_files_read(files, name, "config.json", &length);
    assert_non_null(text);
    must(model_config_parse(text, length, name, &loaded->config, &error), &error);
    free(text);
    loaded->bytes = case_files_read(files, name, "model.safetensors", &length);
    assert_non_null(loaded->bytes);
    must(weights_open_memory(loaded->bytes, length, name, &loaded->weights, &error), &error);
    must(engine_load(loaded->engine, &loaded->config, loaded->weights, NULL, NULL, &loaded->model, &error), &error);
}

static void unload(struct loaded *loaded)
{
    model_close(loaded->model);
    weights_close(loaded->weights);
    free(loaded->bytes);
    model_config_free(&loaded->config);
    engine_close(loaded->engine);
}

/* ---- A run ---- */

static int32_t *read_ids(const json_t *list, int32_t *ids)
{
    for (size_t i = 0; i < json_array_size(list); i++)
        *ids++ = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

static struct engine_input *input_of(struct run *run, const char *name)
{
    for (int i = 0; i < run->info->n_inputs; i++)
        if (strcmp(run->info->inputs[i].name, name) == 0)
            return &run->given.inputs[i];
    fail_msg("the model has no input %s", name);
    return NULL;
}

static void read_rows(struct run *run, const char *name, const json_t *rows)
{
    size_t columns = json_array_size(json_array_get(rows, 0)), count = json_array_size(rows);
    struct engine_input *input = input_of(run, name);
    run->context = calloc(count * columns, sizeof *run->context);
    for (size_t i = 0; i < count * columns; i++)
        run->context[i] = (float)json_number_value(json_array_get(json_array_get(rows, i / columns), i % columns));
    input->data = run->context;
    input->length = (int64_t)count;
}

static struct run run_open(const struct loaded *loaded, const json_t *json)
{
    const json_t *prompt = json_object_get(json, "prompt"), *ids = json_object_get(json, "ids");
    const json_t *context = json_object_get(json, "context"), *source = json_object_get(json, "source");
    const json_t *embeddings = json_object_get(json, "embeddings");
    struct run run = {.loaded = loaded, .info = model_info(loaded->model)};
    const struct model_input *sequence = &run.info->inputs[run.info->sequence_input];
    run.n_prompt = (int64_t)json_array_size(prompt);
    run.count = run.n_prompt + (int64_t)json_array_size(ids);
    run.ids = calloc((size_t)run.count, sizeof *run.ids);
    read_ids(ids, read_ids(prompt, run.ids));
    run.most = run.info->window > 0 ? run.info->window : INT64_MAX;
    assert_true(run.most <= sequence->max_length || run.most == INT64_MAX);
    if (context || embeddings)
        read_rows(&run, context ? "context" : "embeddings", context ? context : embeddings);
    if (source) {
        run.source = calloc(json_array_size(source), sizeof *run.source);
        read_ids(source, run.source);
        run.given.inputs[0].data = run.source;
        run.given.inputs[0].length = (int64_t)json_array_size(source);
    }
    return run;
}

static void run_close(struct run *run)
{
    free(run->ids);
    free(run->context);
    free(run->source);
}

/* Computes the logits (n_wanted, vocabulary) of the last rows of the ids `first` to `end` - 1. If slot is 0, these ids
 * are the whole sequence. Otherwise earlier calls have computed the ids before `first`. */
static void compute(struct run *run, int64_t slot, int64_t first, int64_t end, int64_t n_wanted, float *logits)
{
    struct error error;
    int32_t rows[MAX_ROWS];
    int sequence = run->info->sequence_input;
    struct engine_item item = {0};
    if (slot == 0 || first == 0)
        item = run->given;
    item.inputs[sequence].data = run->ids + first;
    item.inputs[sequence].length = end - first;
    item.slot = slot;
    item.first = slot > 0 ? first : 0;
    for (int64_t i = 0; i < n_wanted; i++)
        rows[i] = (int32_t)(end - first - n_wanted + i);
    item.output = logits;
    item.rows = rows;
    item.n_rows = n_wanted;
    must(model_check(run->loaded->model, &item, &error), &error);
    must(model_run(run->loaded->model, 0, &item, 1, &error), &error);
}

static void expect_next(const struct run *run, const char *name, int64_t end, const float *logits)
{
    int64_t best = 0;
    for (int64_t i = 1; i < run->info->output_columns; i++)
        best = logits[i] > logits[best] ? i : best;
    if (end >= run->n_prompt && end < run->count && best != run->ids[end])
        fail_msg("%s: after %lld ids of a prompt of %lld the best id is %lld, the library's is %d", name,
                 (long long)end, (long long)run->n_prompt, (long long)best, run->ids[end]);
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

static double compare_row(const struct run *run, const char *name, int64_t row, const float *found,
                          const float *together)
{
    double distance = relative_l2(run->info->output_columns, found, together + row * run->info->output_columns);
    if (!(distance <= TOLERANCE))
        fail_msg("%s: row %lld is %.2g from it in one batch", name, (long long)row, distance);
    expect_next(run, name, row + 1, found);
    expect_next(run, name, row + 1, together + row * run->info->output_columns);
    return distance;
}

/* Computes the sequence in two parts, and requests all rows of both, as for a prompt with log-probabilities. */
static double compare_halves(struct run *run, const char *name, int64_t rows, const float *together)
{
    int64_t vocabulary = run->info->output_columns, half = rows / 2;
    float *found = calloc((size_t)(rows * vocabulary), sizeof *found);
    double largest = 0;
    if (half > 0)
        compute(run, 1, 0, half, half, found);
    compute(run, 1, half, rows, rows - half, found + half * vocabulary);
    for (int64_t r = 0; r < rows; r++)
        largest = fmax(largest, compare_row(run, name, r, found + r * vocabulary, together));
    free(found);
    return largest;
}

/* Compares the four ways of the first comment, for the rows up to the longest input. Returns the largest distance. */
static double compare_parts(struct run *run, const char *name)
{
    int64_t vocabulary = run->info->output_columns;
    int64_t rows = run->count < run->most ? run->count : run->most;
    float *together = calloc((size_t)(rows * vocabulary), sizeof *together);
    float *alone = calloc((size_t)vocabulary, sizeof *alone);
    double largest = 0;
    compute(run, 0, 0, rows, rows, together);
    for (int64_t r = 0; r < rows; r++) {
        compute(run, 2, r, r + 1, 1, alone);
        largest = fmax(largest, compare_row(run, name, r, alone, together));
    }
    if (run->n_prompt < rows) {
        compute(run, 1, 0, run->n_prompt, 1, alone);
        largest = fmax(largest, compare_row(run, name, run->n_prompt - 1, alone, together));
        compute(run, 1, run->n_prompt, run->n_prompt + 1, 1, alone);
        largest = fmax(largest, compare_row(run, name, run->n_prompt, alone, together));
    }
    largest = fmax(largest, compare_halves(run, name, rows, together));
    free(together);
    free(alone);
    return largest;
}

/* Compares the rows from `first` on. For each id, the model reads as many of the last rows as it accepts, as a whole
 * sequence. Under a sanitizer, only one of 8 ids is compared. The sequences differ only in length, and do not depend on
 * each other. */
static void compare_windows(struct run *run, const char *name, int64_t first)
{
    float *logits = calloc((size_t)run->info->output_columns, sizeof *logits);
    for (int64_t end = first; end < run->count; end += SANITIZED ? 8 : 1) {
        compute(run, 0, end > run->most ? end - run->most : 0, end, 1, logits);
        expect_next(run, name, end, logits);
    }
    free(logits);
}

static void compare_run(const struct loaded *loaded, const char *name, const json_t *json)
{
    struct run run = run_open(loaded, json);
    if (run.info->n_slots > 0)
        print_message("%s: one row at a time is at most %.2g from all rows\n", name, compare_parts(&run, name));
    bool in_parts = run.info->n_slots > 0 && run.n_prompt <= run.most;
    compare_windows(&run, name, in_parts ? run.most < run.count ? run.most + 1 : run.count : run.n_prompt);
    run_close(&run);
}

/* ---- The models ---- */

static void test_random_models_generate_the_expected_tokens(void **state)
{
    (void)state;
    struct case_files *files = case_files_open(RANDOM);
    assert_non_null(files);
    for (size_t i = 0; i < case_files_count(files); i++) {
        const char *name = case_files_name(files, i);
        struct loaded loaded;
        size_t length, r;
        char *text = case_files_read(files, name, "runs.json", &length);
        json_t *runs = json_loads(text, 0, NULL), *run;
        assert_true(json_array_size(runs) > 0);
        load(files, name, &loaded);
        *(model_info(loaded.model)->n_slots > 0 ? &models_in_parts : &models_again) += 1;
        json_array_foreach (runs, r, run)
            compare_run(&loaded, name, run);
        unload(&loaded);
        json_decref(runs);
        free(text);
    }
    case_files_close(files);
    print_message("%d models in parts, %d run everything again\n", models_in_parts, models_again);
    assert_in_range(models_in_parts, MIN_MODELS, 1000);
    assert_in_range(models_again, MIN_MODELS_AGAIN, 1000);
}

static void compare_file(const char *path)
{
    struct case_files *files = case_files_open(REFERENCE);
    json_t *runs = json_load_file(path, 0, NULL), *run;
    size_t r;
    assert_non_null(files);
    assert_true(json_array_size(runs) > 0);
    json_array_foreach (runs, r, run) {
        struct loaded loaded;
        const char *name = json_string_value(json_object_get(run, "model"));
        load(files, name, &loaded);
        compare_run(&loaded, name, run);
        unload(&loaded);
    }
    json_decref(runs);
    case_files_close(files);
}

static void test_reference_models_generate_the_expected_tokens(void **state)
{
    (void)state;
    compare_file("tests/generation/greedy.json");
    compare_file("tests/generation/greedy_more.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_models_generate_the_expected_tokens),
        cmocka_unit_test(test_reference_models_generate_the_expected_tokens),
    };
    return cmocka_run_group_tests_name("generations", tests, NULL, NULL);
}
