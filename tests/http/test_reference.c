/* The reference cases through the running daemon, all models in one: LMs through /logits, with ids; the encoders, which
 * take floats, through /embed_all. Outputs within 1e-5 of what the library computed. */
#include "tests/http/daemon.h"
#include "weights/weights.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CASES_FOLDER "tests/reference"
#define MAX_CASES 32
#define FEWEST_CASES 10
#define TOLERANCE 1e-5

static struct daemon *the_daemon;
static struct dirent **entries;
static int n_entries;
static char models[MAX_CASES][512];

/* Classes with one input; those with a second, like LinformerSelfAttention's context, need /v2. */
static int is_case(const struct dirent *entry)
{
    return strncmp(entry->d_name, "linformer_lm", 12) == 0 || strncmp(entry->d_name, "linformer_encoder", 17) == 0 ||
           strncmp(entry->d_name, "linear_attention_lm_linformer", 29) == 0;
}

static int start(void **state)
{
    (void)state;
    const char *arguments[2 * MAX_CASES + 1] = {NULL};
    for (int i = 0; i < n_entries; i++) {
        snprintf(models[i], sizeof models[i], CASES_FOLDER "/%s", entries[i]->d_name);
        arguments[2 * i] = "--model";
        arguments[2 * i + 1] = models[i];
    }
    the_daemon = daemon_start(arguments);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    daemon_stop(the_daemon);
    return 0;
}

/* (n, columns) of a tensor (batch, n, columns), or (n) of (batch, n), as JSON. */
static json_t *rows_of(const struct weights_tensor *tensor, int64_t sequence)
{
    json_t *list = json_array();
    int64_t columns = tensor->rank == 3 ? tensor->shape[2] : 1;
    float *floats = calloc((size_t)tensor->elements, sizeof *floats);
    weights_to_f32(tensor, floats);
    for (int64_t r = 0; r < tensor->shape[1]; r++) {
        int64_t first = (sequence * tensor->shape[1] + r) * columns, id = 0;
        json_t *row = json_array();
        for (int64_t c = 0; c < columns; c++)
            json_array_append_new(row, json_real((double)floats[first + c]));
        if (tensor->dtype == WEIGHTS_I64) {
            memcpy(&id, (const char *)tensor->data + first * 8, sizeof id);
            json_decref(row);
            row = json_integer(id);
        }
        json_array_append_new(list, row);
    }
    free(floats);
    return list;
}

static json_t *request_for(const char *name, const struct weights_tensor *x)
{
    json_t *inputs = json_array(), *request = json_object();
    for (int64_t b = 0; b < x->shape[0]; b++)
        json_array_append_new(inputs, rows_of(x, b));
    json_object_set_new(request, x->dtype == WEIGHTS_I64 ? "inputs" : "embeddings", inputs);
    json_object_set_new(request, "model", json_string(name));
    return request;
}

/* Adds the squares of one row's differences and of its numbers. */
static void add_squares(const json_t *row, const float *expected, int64_t columns, double *difference, double *norm)
{
    assert_int_equal(json_array_size(row), columns);
    for (int64_t c = 0; c < columns; c++) {
        *difference += pow(json_number_at(row, (size_t)c) - (double)expected[c], 2);
        *norm += pow((double)expected[c], 2);
    }
}

static double relative_l2(const json_t *answer, const struct weights_tensor *output, bool logits)
{
    int64_t length = output->shape[1], columns = output->shape[2];
    double difference = 0, norm = 0;
    float *expected = calloc((size_t)output->elements, sizeof *expected);
    assert_true(weights_to_f32(output, expected));
    assert_int_equal(json_array_size(answer), output->shape[0]);
    for (int64_t b = 0; b < output->shape[0]; b++) {
        const json_t *item = json_array_get(answer, (size_t)b);
        const json_t *rows = logits ? json_object_get(item, "logits") : item;
        assert_int_equal(json_array_size(rows), length);
        for (int64_t r = 0; r < length; r++)
            add_squares(json_array_get(rows, (size_t)r), expected + (b * length + r) * columns, columns, &difference,
                        &norm);
    }
    free(expected);
    return sqrt(difference / norm);
}

static const struct weights_tensor *call_tensor(const struct weights *calls, int index, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%d/%s", index, name);
    return weights_find(calls, full);
}

static void compare_case(void **state)
{
    const char *name = *state;
    char path[512];
    struct weights *calls;
    struct error error;
    snprintf(path, sizeof path, CASES_FOLDER "/%s/calls.safetensors", name);
    if (weights_open(path, &calls, &error) != 0)
        fail_msg("%s", error.message);
    int index = 0;
    const struct weights_tensor *x;
    for (; (x = call_tensor(calls, index, "in/x")); index++) {
        bool logits = x->dtype == WEIGHTS_I64;
        json_t *request = request_for(name, x);
        char *body = json_dumps(request, JSON_COMPACT | JSON_REAL_PRECISION(9));
        json_t *answer = daemon_post_json(the_daemon, logits ? "/logits" : "/embed_all", body);
        double distance = relative_l2(answer, call_tensor(calls, index, "out/output"), logits);
        print_message("%s call %d: relative L2 error %.2g\n", name, index, distance);
        assert_true(distance <= TOLERANCE);
        json_decref(answer);
        json_decref(request);
        free(body);
    }
    assert_true(index > 0);
    weights_close(calls);
}

int main(void)
{
    struct CMUnitTest tests[MAX_CASES];
    n_entries = scandir(CASES_FOLDER, &entries, is_case, alphasort);
    if (n_entries < FEWEST_CASES || n_entries > MAX_CASES) {
        fprintf(stderr, "%d cases in " CASES_FOLDER ": run from the root of the repository\n", n_entries);
        return 1;
    }
    for (int i = 0; i < n_entries; i++)
        tests[i] = (struct CMUnitTest){entries[i]->d_name, compare_case, NULL, NULL, entries[i]->d_name};
    int failed = _cmocka_run_group_tests("reference cases over HTTP", tests, (size_t)n_entries, start, stop);
    for (int i = 0; i < n_entries; i++)
        free(entries[i]);
    free(entries);
    return failed;
}
