/* /generate returns the ids that the libraries generate, for random models (tests/generation/random.tar.gz) and for
 * models of tests/reference (greedy_more.json). test_generate.c tests the models of greedy.json. */
#include "tests/http/checkpoint.h"
#include "tests/http/daemon.h"
#include "tests/unit/case_files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RANDOM "tests/generation/random.tar.gz"
#define RUNS "tests/generation/greedy_more.json"
#define MIN_RUNS 220 /* minimum number of runs of random models */
#define REFERENCE_MODELS 3
#define SOURCE_ROWS 64

/* Writes a file of a model. A module generates only if its config.json has the key "causal". So this function adds the
 * key. */
static void write_file(const char *folder, const char *name, const char *bytes, size_t length)
{
    static const char module[] = "{\n \"architecture\": \"module\"", causal[] = "{\"causal\": true, ";
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    if (length > sizeof module && memcmp(bytes, module, sizeof module - 1) == 0) {
        assert_int_equal(fwrite(causal, 1, sizeof causal - 1, file), sizeof causal - 1);
        bytes++;
        length--;
    }
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    fclose(file);
}

static void unpack(const struct case_files *files, const char *folder, const char *name)
{
    static const char *const parts[] = {"config.json", "model.safetensors"};
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(mkdir(path, 0700), 0);
    for (size_t i = 0; i < LENGTH(parts); i++) {
        size_t length;
        char *bytes = case_files_read(files, name, parts[i], &length);
        assert_non_null(bytes);
        write_file(path, parts[i], bytes, length);
        free(bytes);
    }
}

/* Returns the body, which the caller frees. If the run has a source, the encoder reads it, and the prompt begins the
 * decoder's sequence. */
static char *body_of(const char *model, const json_t *run)
{
    static const char *const named[] = {"context", "embeddings"};
    json_t *prompt = json_object_get(run, "prompt"), *source = json_object_get(run, "source");
    json_t *body = json_pack("{s:s, s:O, s:{s:I}}", "model", model, "inputs", source ? source : prompt, "parameters",
                             "max_new_tokens", (json_int_t)json_array_size(json_object_get(run, "ids")));
    for (size_t i = 0; i < LENGTH(named); i++)
        if (json_object_get(run, named[i]))
            json_object_set(body, named[i], json_object_get(run, named[i]));
    if (source)
        json_object_set(json_object_get(body, "parameters"), "decoder_input", prompt);
    char *text = json_dumps(body, JSON_COMPACT);
    json_decref(body);
    return text;
}

static void expect_run(const struct daemon *daemon, const char *model, const json_t *run)
{
    const json_t *ids = json_object_get(run, "ids");
    char *body = body_of(model, run);
    struct answer answer = daemon_post(daemon, "/generate", body);
    if (answer.status != 200)
        fail_msg("%s: %ld %s", model, answer.status, answer.body);
    const json_t *tokens = json_object_get(json_object_get(answer.json, "details"), "tokens");
    assert_int_equal(json_array_size(tokens), json_array_size(ids));
    for (size_t i = 0; i < json_array_size(ids); i++) {
        json_int_t found = json_integer_value(json_object_get(json_array_get(tokens, i), "id"));
        json_int_t expected = json_integer_value(json_array_get(ids, i));
        if (found != expected)
            fail_msg("%s: token %zu is %lld, the library's is %lld; %.300s", model, i, (long long)found,
                     (long long)expected, body);
    }
    answer_free(&answer);
    free(body);
}

static void test_random_models_generate_the_expected_tokens(void **state)
{
    (void)state;
    char *folder = folder_make();
    struct case_files *files = case_files_open(RANDOM);
    int runs_done = 0;
    assert_non_null(files);
    for (size_t i = 0; i < case_files_count(files); i++)
        unpack(files, folder, case_files_name(files, i));
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", folder, "--max-batch-tokens", "1024"));
    for (size_t i = 0; i < case_files_count(files); i++) {
        const char *name = case_files_name(files, i);
        size_t length, r;
        char *text = case_files_read(files, name, "runs.json", &length);
        json_t *runs = json_loads(text, 0, NULL), *run;
        json_array_foreach (runs, r, run) {
            expect_run(daemon, name, run);
            runs_done++;
        }
        json_decref(runs);
        free(text);
    }
    assert_in_range(runs_done, MIN_RUNS, 1000);
    daemon_stop(daemon);
    case_files_close(files);
    folder_remove(folder);
    free(folder);
}

/* Returns the number behind `name`{model="model"} in GET /metrics. */
static double metric(const struct daemon *daemon, const char *name, const char *model)
{
    char label[256];
    struct answer answer = daemon_get(daemon, "/metrics");
    snprintf(label, sizeof label, "\n%s{model=\"%s\"} ", name, model);
    const char *at = strstr(answer.body, label);
    double value = at ? strtod(at + strlen(label), NULL) : 0;
    answer_free(&answer);
    return value;
}

/* Expects few rows in the batches. The first batch counts the longer one of prompt and source. The source is padded to
 * at most SOURCE_ROWS rows. Each later batch has one row. If the encoder ran again, a later batch would have more
 * rows. */
static void expect_rows(const struct daemon *daemon, const char *model, const json_t *run, double before)
{
    double prompt = (double)json_array_size(json_object_get(run, "prompt"));
    double rows = fmax(prompt, SOURCE_ROWS) + (double)json_array_size(json_object_get(run, "ids")) - 1;
    double found = metric(daemon, "linformerd_batch_tokens_sum", model) - before;
    if (found < 1 || found > rows)
        fail_msg("batches had %.0f rows, expected at most %.0f", found, rows);
}

static void test_reference_models_generate_the_expected_tokens(void **state)
{
    (void)state;
    json_t *runs = json_of_file(RUNS), *run;
    size_t i;
    const char *arguments[2 * REFERENCE_MODELS + 1] = {NULL}, *last = "";
    char paths[REFERENCE_MODELS][256];
    int count = 0;
    json_array_foreach (runs, i, run) {
        const char *model = json_string_value(json_object_get(run, "model"));
        if (strcmp(model, last) == 0)
            continue;
        assert_true(count < REFERENCE_MODELS);
        snprintf(paths[count], sizeof paths[count], "tests/reference/%s", model);
        arguments[2 * count] = "--model";
        arguments[2 * count + 1] = paths[count];
        last = model;
        count++;
    }
    assert_int_equal(count, REFERENCE_MODELS);
    struct daemon *daemon = daemon_start(arguments);
    json_array_foreach (runs, i, run)
        expect_run(daemon, json_string_value(json_object_get(run, "model")), run);
    daemon_stop(daemon);
    json_decref(runs);
}

/* The sequences are not longer than the decoder's maximum length, so no row is computed twice. */
static void test_rows_of_a_source_or_context_are_computed_once(void **state)
{
    (void)state;
    struct daemon *daemon = daemon_start(ARGUMENTS("--model", "tests/reference/linear_attention_encoder_decoder",
                                                   "--model", "tests/reference/linear_attention_context_linformer"));
    json_t *runs = json_of_file(RUNS), *run;
    size_t i;
    int compared = 0;
    json_array_foreach (runs, i, run) {
        const char *model = json_string_value(json_object_get(run, "model"));
        bool reads_more = json_object_get(run, "source") || json_object_get(run, "context");
        if (!reads_more || json_array_size(json_object_get(run, "prompt")) > 40)
            continue;
        json_t *ids = json_object_get(run, "ids"), *shorter = json_array();
        for (size_t j = 0; j < 20; j++)
            json_array_append(shorter, json_array_get(ids, j));
        json_object_set_new(run, "ids", shorter);
        double before = metric(daemon, "linformerd_batch_tokens_sum", model);
        expect_run(daemon, model, run);
        expect_rows(daemon, model, run, before);
        compared++;
    }
    assert_in_range(compared, 7, 100);
    daemon_stop(daemon);
    json_decref(runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_models_generate_the_expected_tokens),
        cmocka_unit_test(test_reference_models_generate_the_expected_tokens),
        cmocka_unit_test(test_rows_of_a_source_or_context_are_computed_once),
    };
    return cmocka_run_group_tests_name("generations", tests, NULL, NULL);
}
