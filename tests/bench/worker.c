/* worker: linformerd's engine as one of the programs that the benchmarks compare. It loads one model, then does what
 * its standard input says, in the same words as peers.py.
 *
 *     worker FOLDER DTYPE MAX_TOKENS MAX_ITEMS [THREADS]
 *
 *     shape BATCH LENGTH [FILE]  sequences of the model's first input, raw numbers from FILE, or random ones; runs
 *                                once -> ready
 *     run SECONDS                runs for so long, at least once -> ms T1 T2 …
 *     save FILE                  writes the last output as raw floats -> saved
 *
 * What fails is answered with "failed MESSAGE". */
#include "engine/engine.h"
#include "tests/unit/tensors.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_RUNS 100000

/* What is run: `batch` sequences of `length` rows, behind one another. */
struct shape_run {
    struct model *model;
    int64_t batch, length;
    char *input;
    float *output;
    struct engine_item *items;
};

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void answer_failed(const char *message)
{
    printf("failed %s\n", message);
    fflush(stdout);
}

/* ---- Input ---- */

static int read_input(const char *path, char *input, size_t bytes, struct error *error)
{
    FILE *file = fopen(path, "rb");
    size_t found = file ? fread(input, 1, bytes, file) : 0;
    if (file)
        fclose(file);
    return found == bytes ? 0 : error_set(error, "%s: expected %zu bytes, found %zu", path, bytes, found);
}

static void random_input(const struct model_input *input, char *data, int64_t rows)
{
    for (int64_t i = 0; i < rows * input->columns; i++)
        if (input->kind == INPUT_IDS)
            ((int32_t *)data)[i] = (int32_t)random_size(0, input->vocabulary - 1);
        else
            ((float *)data)[i] = random_float();
}

static void shape_free(struct shape_run *run)
{
    free(run->input);
    free(run->output);
    free(run->items);
    run->input = NULL;
    run->output = NULL;
    run->items = NULL;
    run->batch = 0;
}

/* Four bytes an element: float or int32_t. */
static int shape_set(struct shape_run *run, int64_t batch, int64_t length, const char *path, struct error *error)
{
    const struct model_info *info = model_info(run->model);
    const struct model_input *input = &info->inputs[0];
    shape_free(run);
    if (batch < 1 || length < 1 || length > input->max_length || input->layout != LAYOUT_SEQUENCE)
        return error_set(error, "expected sequences of 1 to %lld rows, found %lld of %lld",
                         (long long)input->max_length, (long long)batch, (long long)length);
    size_t row = (size_t)input->columns * 4, bytes = (size_t)(batch * length) * row;
    size_t floats = (size_t)(batch * length * info->output_columns);
    run->input = malloc(bytes);
    run->output = malloc(floats * sizeof *run->output);
    run->items = calloc((size_t)batch, sizeof *run->items);
    if (!run->input || !run->output || !run->items)
        return error_set(error, "no memory for %zu bytes of input and %zu floats of output", bytes, floats);
    if (!path)
        random_input(input, run->input, batch * length);
    else if (read_input(path, run->input, bytes, error) != 0)
        return -1;
    for (int64_t i = 0; i < batch; i++) {
        struct engine_item *item = &run->items[i];
        item->inputs[0].data = run->input + (size_t)(i * length) * row;
        item->inputs[0].length = length;
        item->output = run->output + i * length * info->output_columns;
        item->n_rows = length;
        if (model_check(run->model, item, error) != 0)
            return -1;
    }
    run->batch = batch;
    run->length = length;
    return model_run(run->model, run->items, batch, error); /* warms caches */
}

/* ---- Commands ---- */

static int set_shape(struct shape_run *run, char *arguments, struct error *error)
{
    long long batch, length;
    char path[PATH_MAX];
    int found = sscanf(arguments, "%lld %lld %4095s", &batch, &length, path);
    if (found < 2)
        return error_set(error, "shape BATCH LENGTH [FILE]");
    if (shape_set(run, batch, length, found == 3 ? path : NULL, error) != 0) {
        shape_free(run);
        return -1;
    }
    puts("ready");
    return 0;
}

static int time_runs(struct shape_run *run, const char *arguments, struct error *error)
{
    static double times[MAX_RUNS];
    int runs = 0;
    double seconds = atof(arguments), begin = now_s(), last = begin;
    if (run->batch == 0)
        return error_set(error, "no shape yet");
    while (runs == 0 || (runs < MAX_RUNS && last - begin < seconds)) {
        double start = now_s();
        if (model_run(run->model, run->items, run->batch, error) != 0)
            return -1;
        last = now_s();
        times[runs++] = last - start;
    }
    printf("ms");
    for (int i = 0; i < runs; i++)
        printf(" %.4f", times[i] * 1e3);
    puts("");
    return 0;
}

static int save_output(const struct shape_run *run, const char *path, struct error *error)
{
    size_t floats = (size_t)(run->batch * run->length * model_info(run->model)->output_columns);
    FILE *file = fopen(path, "wb");
    size_t written = file ? fwrite(run->output, sizeof *run->output, floats, file) : 0;
    if (!file || fclose(file) != 0 || written != floats)
        return error_set(error, "%s: %s", path, strerror(errno));
    puts("saved");
    return 0;
}

static int obey(struct shape_run *run, char *line, struct error *error)
{
    char *arguments = line + strcspn(line, " \n");
    char end = *arguments;
    *arguments = '\0';
    arguments += end == ' ';
    arguments[strcspn(arguments, "\n")] = '\0';
    if (strcmp(line, "shape") == 0)
        return set_shape(run, arguments, error);
    if (strcmp(line, "run") == 0)
        return time_runs(run, arguments, error);
    if (strcmp(line, "save") == 0)
        return save_output(run, arguments, error);
    return error_set(error, "no command %s", line);
}

static int load(const char *folder, struct engine *engine, struct model **model, struct error *error)
{
    char path[PATH_MAX];
    struct model_config config;
    struct weights *weights;
    snprintf(path, sizeof path, "%s/config.json", folder);
    if (model_config_read(path, &config, error) != 0)
        return -1;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    int status = weights_open(path, &weights, error);
    if (status == 0) {
        status = engine_load(engine, &config, weights, NULL, NULL, model, error);
        weights_close(weights);
    }
    model_config_free(&config);
    return status;
}

int main(int argc, char **argv)
{
    char line[PATH_MAX + 64];
    struct engine *engine;
    struct shape_run run = {0};
    struct error error;
    if (argc < 5 || argc > 6) {
        fprintf(stderr, "usage: worker FOLDER DTYPE MAX_TOKENS MAX_ITEMS [THREADS]\n");
        return 2;
    }
    struct engine_options options = {.device = "cpu",
                                     .dtype = argv[2],
                                     .max_batch_tokens = atoll(argv[3]),
                                     .max_batch_requests = atoll(argv[4]),
                                     .threads = argc > 5 ? atoll(argv[5]) : 0};
    if (engine_open(&options, &engine, &error) != 0) {
        answer_failed(error.message);
        return 1;
    }
    if (load(argv[1], engine, &run.model, &error) != 0) {
        answer_failed(error.message);
        engine_close(engine);
        return 1;
    }
    printf("ready linformerd %s, %s\n", LINFORMERD_VERSION, engine_kernels(engine));
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        if (obey(&run, line, &error) != 0)
            answer_failed(error.message);
        fflush(stdout);
    }
    shape_free(&run);
    model_close(run.model);
    engine_close(engine);
    return 0;
}
