/* worker: runs linformerd's engine as one of the programs that the benchmarks compare. It loads one model, and then
 * reads commands from its standard input. peers.py and tests/gpu/peer.py understand the same commands.
 *
 *     worker FOLDER DTYPE MAX_TOKENS MAX_ITEMS [THREADS [DEVICE]]     THREADS 0: one per core. DEVICE: cpu
 *
 *     shape BATCH LENGTH [FILE]  items of the model's first input. Their numbers come from FILE, or are random. Runs
 *                                once -> ready. LENGTH: of a sequence, or each free size of a tensor
 *     pooled FILE LENGTH…        sequences of these lengths, one after another in FILE, or random if FILE is "-".
 *                                Requests the mean of each last hidden state. Runs once -> ready
 *     steps BATCH FIRST          one new row of each of BATCH sequences of a causal model. Each slot stands for FIRST
 *                                earlier rows, which are not computed. Requests the logits of the new row. Runs once
 *                                -> ready
 *     read SECONDS               reads as many bytes as the weights have, with all threads -> bytes B MS1 MS2 …
 *     run SECONDS                runs for this time, at least once -> ms T1 T2 …
 *     save FILE                  writes the last output as raw floats -> saved
 *     explain LENGTH FILE        writes the output of --explain for a sequence -> saved
 *     profile SECONDS PREFIX FILE    runs for this time. Writes the time of each operation, inside and outside of the
 *                                class whose weights' names begin with PREFIX. -> glue PERCENT PRODUCTS_PERCENT. These
 *                                are shares outside of the class: PRODUCTS_PERCENT for products with weights, and
 *                                PERCENT for all other operations
 *
 * The answer to a command that fails is "failed MESSAGE". */
#include "engine/engine.h"
#include "engine/model.h"
#include "tests/bench/dtypes.h"
#include "tests/unit/tensors.h"

#include <errno.h>
#include <limits.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_RUNS 100000
#define MAX_ITEMS 4096
#define MAX_LINE (PATH_MAX + 8 * MAX_ITEMS)

/* The model, and the sequences of a run. Input and output of the sequences are consecutive in memory. */
struct shape_run {
    struct engine *engine;
    struct model *model;
    struct engine_item *items;
    int64_t n_items; /* 0 before the first command that sets sequences */
    char *input;
    float *output;
    size_t output_floats;
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
    *run = (struct shape_run){.engine = run->engine, .model = run->model};
}

/* Runs the sequences once. If a batch fails on a device, it runs again on the CPU. Such a time must not be measured, so
 * this is an error. */
static int run_once(const struct shape_run *run, struct error *error)
{
    if (model_run(run->model, 0, run->items, run->n_items, error) != 0)
        return -1;
    int64_t elsewhere = engine_counts(run->engine).standby_batches;
    return elsewhere == 0 ? 0
                          : error_set(error, "the device failed: %lld batches ran on the CPU", (long long)elsewhere);
}

/* Sets the item's shape. Returns its number of rows. */
static int64_t set_size(const struct model_input *input, int64_t length, struct engine_input *given)
{
    int64_t elements = 1;
    given->length = length;
    if (input->layout != LAYOUT_TENSOR)
        return length;
    for (int d = 0; d < input->rank; d++) {
        given->sizes[d] = input->shape[d] < 0 ? length : input->shape[d];
        elements *= given->sizes[d];
    }
    return elements / input->columns;
}

/* Returns the number of elements of the class's output, for an item with a given input. */
static int64_t output_elements(const struct model *model, const struct engine_item *item)
{
    int64_t shape[ENGINE_MAX_RANK], elements = 1;
    int rank = model_output_shape(model, item, 0, shape);
    for (int d = 0; d < rank; d++)
        elements *= shape[d];
    return elements;
}

/* Sets the place of each item in the input and in the output. An element of the input has four bytes. */
static int lay_out(struct shape_run *run, const int64_t *lengths, bool pooled, struct error *error)
{
    const struct model_info *info = model_info(run->model);
    size_t row = (size_t)info->inputs[0].columns * 4;
    char *input = run->input;
    float *output = run->output;
    for (int64_t i = 0; i < run->n_items; i++) {
        struct engine_item *item = &run->items[i];
        item->inputs[0].data = input;
        input += (size_t)set_size(&info->inputs[0], lengths[i], &item->inputs[0]) * row;
        if (pooled) {
            item->pooled = output;
            item->pooling = POOLING_MEAN;
            output += info->hidden_columns;
        } else {
            item->output = output;
            item->n_rows = info->n_tensors > 0 ? 0 : model_hidden_rows(run->model, item);
            output += output_elements(run->model, item);
        }
        if (model_check(run->model, item, error) != 0)
            return -1;
    }
    return 0;
}

static int shape_set(struct shape_run *run, const int64_t *lengths, int64_t n_items, bool pooled, const char *path,
                     struct error *error)
{
    const struct model_info *info = model_info(run->model);
    const struct model_input *input = &info->inputs[0];
    int64_t rows = 0, output_floats = 0;
    bool sequence = input->layout == LAYOUT_SEQUENCE;
    shape_free(run);
    for (int64_t i = 0; i < n_items; i++) {
        struct engine_item item = {.n_rows = 0};
        if (lengths[i] < 1 || (sequence && lengths[i] > input->max_length) ||
            (!sequence && input->layout != LAYOUT_TENSOR))
            return error_set(error, "expected sequences of 1 to %lld rows, or tensors, found one of %lld",
                             (long long)input->max_length, (long long)lengths[i]);
        rows += set_size(input, lengths[i], &item.inputs[0]);
        output_floats += pooled ? info->hidden_columns : output_elements(run->model, &item);
    }
    size_t bytes = (size_t)(rows * input->columns) * 4;
    run->output_floats = (size_t)output_floats;
    run->input = malloc(bytes);
    run->output = malloc(run->output_floats * sizeof *run->output);
    run->items = calloc((size_t)n_items, sizeof *run->items);
    if (!run->input || !run->output || !run->items)
        return error_set(error, "no memory for %zu bytes of input and %zu floats of output", bytes, run->output_floats);
    if (!path)
        random_input(input, run->input, rows);
    else if (read_input(path, run->input, bytes, error) != 0)
        return -1;
    run->n_items = n_items;
    if (lay_out(run, lengths, pooled, error) != 0)
        return -1;
    return run_once(run, error); /* warms caches */
}

/* Sets steps of causal sequences. A slot keeps the sums of the earlier rows of a sequence. These rows are not computed,
 * because the values of the sums do not influence the time. */
static int set_steps(struct shape_run *run, const char *arguments, struct error *error)
{
    static int32_t last_row = 0;
    const struct model_info *info = model_info(run->model);
    long long batch, first;
    if (sscanf(arguments, "%lld %lld", &batch, &first) != 2 || batch < 1 || first < 1)
        return error_set(error, "steps BATCH FIRST");
    if (batch > info->n_slots)
        return error_set(error, "the model has %lld slots", (long long)info->n_slots);
    shape_free(run);
    run->output_floats = (size_t)(batch * info->output_columns);
    run->input = calloc((size_t)batch, sizeof(int32_t));
    run->output = malloc(run->output_floats * sizeof *run->output);
    run->items = calloc((size_t)batch, sizeof *run->items);
    if (!run->input || !run->output || !run->items)
        return error_set(error, "no memory for %lld sequences", batch);
    run->n_items = batch;
    for (int64_t i = 0; i < batch; i++) {
        struct engine_item *item = &run->items[i];
        item->inputs[0].data = run->input + i * (int64_t)sizeof(int32_t);
        item->inputs[0].length = 1;
        item->slot = i + 1;
        item->first = first;
        item->output = run->output + i * info->output_columns;
        item->rows = &last_row;
        item->n_rows = 1;
        if (model_check(run->model, item, error) != 0)
            return -1;
    }
    if (run_once(run, error) != 0)
        return -1;
    puts("ready");
    return 0;
}

/* ---- Commands ---- */

static int prepare(struct shape_run *run, const int64_t *lengths, int64_t n_items, bool pooled, const char *path,
                   struct error *error)
{
    if (shape_set(run, lengths, n_items, pooled, path, error) != 0) {
        shape_free(run);
        return -1;
    }
    puts("ready");
    return 0;
}

static int set_shape(struct shape_run *run, const char *arguments, struct error *error)
{
    static int64_t lengths[MAX_ITEMS];
    long long batch, length;
    char path[PATH_MAX];
    int found = sscanf(arguments, "%lld %lld %4095s", &batch, &length, path);
    if (found < 2 || batch < 1 || batch > MAX_ITEMS)
        return error_set(error, "shape BATCH LENGTH [FILE]");
    for (int64_t i = 0; i < batch; i++)
        lengths[i] = length;
    return prepare(run, lengths, batch, false, found == 3 ? path : NULL, error);
}

static int set_pooled(struct shape_run *run, char *arguments, struct error *error)
{
    static int64_t lengths[MAX_ITEMS];
    int64_t n_items = 0;
    char *rest, *path = strtok_r(arguments, " ", &rest);
    for (char *word; (word = strtok_r(NULL, " ", &rest)) && n_items < MAX_ITEMS; n_items++)
        lengths[n_items] = atoll(word);
    if (n_items == 0)
        return error_set(error, "pooled FILE LENGTH…");
    return prepare(run, lengths, n_items, true, strcmp(path, "-") == 0 ? NULL : path, error);
}

static int time_runs(struct shape_run *run, const char *arguments, struct error *error)
{
    static double times[MAX_RUNS];
    int runs = 0;
    double seconds = atof(arguments), begin = now_s(), last = begin;
    if (run->n_items == 0)
        return error_set(error, "no shape yet");
    while (runs == 0 || (runs < MAX_RUNS && last - begin < seconds)) {
        double start = now_s();
        if (run_once(run, error) != 0)
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

/* Adds up words, so that the compiler cannot omit the reads. */
static uint64_t sum_words(const uint64_t *words, int64_t count)
{
    uint64_t sums[16] = {0}, sum = 0;
    for (int64_t i = 0; i + 16 <= count; i += 16)
        for (int j = 0; j < 16; j++)
            sums[j] += words[i + j];
    for (int j = 0; j < 16; j++)
        sum += sums[j];
    return sum;
}

/* Measures how fast the memory delivers the bytes of the weights. Each thread reads consecutive parts. */
static int time_reads(const struct shape_run *run, const char *arguments, struct error *error)
{
    const int64_t part = 1 << 15; /* number of words of a part */
    int64_t bytes = (int64_t)model_info(run->model)->weights_bytes, parts = bytes / 8 / part;
    uint64_t *words = malloc((size_t)bytes), sum = 0;
    if (!words || parts < 1) {
        free(words);
        return error_set(error, "no memory for %lld bytes, or fewer than one part", (long long)bytes);
    }
    memset(words, 1, (size_t)bytes);
    printf("bytes %lld", (long long)bytes);
    double seconds = atof(arguments), begin = now_s(), last = begin;
    do {
        double start = now_s();
#pragma omp parallel for num_threads(omp_get_num_procs()) schedule(static) reduction(+ : sum)
        for (int64_t p = 0; p < parts; p++)
            sum += sum_words(words + p * part, part);
        last = now_s();
        printf(" %.4f", (last - start) * 1e3);
    } while (last - begin < seconds);
    puts("");
    free(words);
    return sum > 0 ? 0 : error_set(error, "the sum is wrong");
}

static int save_output(const struct shape_run *run, const char *path, struct error *error)
{
    FILE *file = fopen(path, "wb");
    size_t written = file ? fwrite(run->output, sizeof *run->output, run->output_floats, file) : 0;
    if (!file || fclose(file) != 0 || written != run->output_floats)
        return error_set(error, "%s: %s", path, strerror(errno));
    puts("saved");
    return 0;
}

static int save_explained(const struct shape_run *run, const char *arguments, struct error *error)
{
    long long length;
    char path[PATH_MAX];
    if (sscanf(arguments, "%lld %4095s", &length, path) != 2 || length < 1)
        return error_set(error, "explain LENGTH FILE");
    FILE *file = fopen(path, "w");
    if (file)
        model_explain(run->model, length, file);
    if (!file || fclose(file) != 0)
        return error_set(error, "%s: %s", path, strerror(errno));
    puts("saved");
    return 0;
}

/* ---- Time by operation ---- */

/* Seconds of each operation. [OP_COUNT] is the copy of the inputs. */
struct profile {
    double inside[OP_COUNT + 1], outside[OP_COUNT + 1], total;
};

static bool step_reads_prefix(const struct plan *plan, const struct plan_step *step, const char *prefix)
{
    for (int i = 0; i < PLAN_WEIGHTS; i++)
        if (step->weights[i] != PLAN_NONE && strncmp(plan->weights[step->weights[i]].name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

/* Adds up the seconds of the steps for each operation, inside and outside of the class. The steps of the class are
 * those from the first to the last step that reads one of its weights. */
static void profile_set(struct profile *profile, const struct plan *plan, const double *seconds, const char *prefix)
{
    int first = plan->n_steps, last = -1;
    for (int i = 0; i < plan->n_steps; i++)
        if (step_reads_prefix(plan, &plan->steps[i], prefix)) {
            first = i < first ? i : first;
            last = i;
        }
    *profile = (struct profile){.total = seconds[plan->n_steps]};
    profile->outside[OP_COUNT] = seconds[plan->n_steps];
    for (int i = 0; i < plan->n_steps; i++) {
        bool inside = first <= i && i <= last;
        (inside ? profile->inside : profile->outside)[plan->steps[i].operation] += seconds[i];
        profile->total += seconds[i];
    }
}

static void profile_write(const struct profile *profile, int runs, FILE *out)
{
    for (int o = 0; o <= OP_COUNT; o++) {
        const char *name = o == OP_COUNT ? "inputs" : operation_name((enum operation)o);
        for (int side = 0; side < 2; side++) {
            double seconds = side == 0 ? profile->inside[o] : profile->outside[o];
            if (seconds > 0)
                fprintf(out, "%-8s %-18s %9.4f ms %6.2f %%\n", side == 0 ? "inside" : "outside", name,
                        seconds / runs * 1e3, 100 * seconds / profile->total);
        }
    }
    fprintf(out, "total %.4f ms\n", profile->total / runs * 1e3);
}

static void print_shares(const struct profile *profile)
{
    double products = profile->outside[OP_LINEAR] + profile->outside[OP_FEED_FORWARD], all = 0;
    for (int o = 0; o <= OP_COUNT; o++)
        all += profile->outside[o];
    printf("glue %.2f %.2f\n", 100 * (all - products) / profile->total, 100 * products / profile->total);
}

/* Runs the sequences for `seconds`, and adds each step's time to `times`. Returns the number of runs, or -1 if a run
 * failed. */
static int time_steps(struct shape_run *run, double seconds, double *times, struct error *error)
{
    double begin = now_s();
    int runs = 0, status = 0;
    model_time_steps(run->model, times);
    while (status == 0 && (runs == 0 || now_s() - begin < seconds)) {
        status = run_once(run, error);
        runs++;
    }
    model_time_steps(run->model, NULL);
    return status == 0 ? runs : -1;
}

static int save_profile(struct shape_run *run, const char *arguments, struct error *error)
{
    double seconds;
    char prefix[256], path[PATH_MAX];
    struct profile profile;
    if (sscanf(arguments, "%lf %255s %4095s", &seconds, prefix, path) != 3 || run->n_items == 0)
        return error_set(error, "profile SECONDS PREFIX FILE, after a shape");
    const struct plan *plan = model_plan(run->model);
    double *times = calloc((size_t)plan->n_steps + 1, sizeof *times);
    if (!times)
        return error_set(error, "no memory for the times of %d steps", plan->n_steps);
    int runs = time_steps(run, seconds, times, error);
    if (runs > 0)
        profile_set(&profile, plan, times, prefix);
    free(times);
    if (runs < 0)
        return -1;
    FILE *file = fopen(path, "w");
    if (file)
        profile_write(&profile, runs, file);
    if (!file || fclose(file) != 0)
        return error_set(error, "%s: %s", path, strerror(errno));
    print_shares(&profile);
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
    if (strcmp(line, "pooled") == 0)
        return set_pooled(run, arguments, error);
    if (strcmp(line, "steps") == 0)
        return set_steps(run, arguments, error);
    if (strcmp(line, "read") == 0)
        return time_reads(run, arguments, error);
    if (strcmp(line, "run") == 0)
        return time_runs(run, arguments, error);
    if (strcmp(line, "save") == 0)
        return save_output(run, arguments, error);
    if (strcmp(line, "profile") == 0)
        return save_profile(run, arguments, error);
    if (strcmp(line, "explain") == 0)
        return save_explained(run, arguments, error);
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
    static char line[MAX_LINE];
    struct engine *engine;
    struct shape_run run = {0};
    struct error error;
    /* The daemon's environment variables, with the same defaults. */
    const char *tuning = getenv("LINFORMERD_CUDA_TUNING_MS");
    const char *f32 = getenv("LINFORMERD_CUDA_F32");
    if (argc < 5 || argc > 7) {
        fprintf(stderr, "usage: worker FOLDER DTYPE MAX_TOKENS MAX_ITEMS [THREADS [DEVICE]]\n");
        return 2;
    }
    int dtype = dtype_from_name(argv[2]);
    if (dtype < 0) {
        error_set(&error, "dtype \"%.100s\": expected auto, f32, tf32, bf16 or f16", argv[2]);
        answer_failed(error.message);
        return 1;
    }
    struct engine_options options = {.dtype = (enum dtype)dtype,
                                     .cuda_f32 = f32 && strcmp(f32, "plain") == 0 ? CUDA_F32_PLAIN : CUDA_F32_TENSOR,
                                     .max_batch_tokens = atoll(argv[3]),
                                     .max_batch_requests = atoll(argv[4]),
                                     .max_slots = atoll(argv[4]),
                                     .threads = argc > 5 ? atoll(argv[5]) : 0,
                                     .cuda_tuning_ms = tuning ? atoll(tuning) : 3000};
    if (device_choice_parse(argc > 6 ? argv[6] : "cpu", &options.device, &error) != 0 ||
        engine_open(&options, &engine, &error) != 0) {
        answer_failed(error.message);
        return 1;
    }
    run.engine = engine;
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
