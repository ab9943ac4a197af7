#include "tests/fake_engine.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_RECORDED 100000
#define MAX_LANES 8

struct engine {
    struct engine_options options;
};

struct model {
    struct model_info info;
    struct model_input inputs[ENGINE_MAX_INPUTS];
    char *architecture;
};

struct record {
    const struct model *model;
    int lane;
    int64_t n_items;
    int32_t *ids;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct {
    int64_t max_batch_tokens, max_batch_requests, violations;
    bool gate_closed;
    int64_t passes;                 /* number of batches that the closed gate still lets through */
    const struct model *gate_model; /* model whose batches the gate stops, NULL: all models */
    bool running[MAX_LANES];        /* whether model_run executes a batch on the lane */
    bool failed[MAX_LANES];
    int64_t ns_per_token;
    void (*on_batch)(const struct model *model, const struct engine_item *items, int64_t n_items);
    int cold_lane; /* number of the cold lane plus 1, 0: none */
    int64_t warm_ups;
    int64_t n_records;
    struct record records[MAX_RECORDED];
} state;

/* ---- For the tests ---- */

void fake_reset(void)
{
    pthread_mutex_lock(&lock);
    for (int64_t i = 0; i < state.n_records; i++)
        free(state.records[i].ids);
    memset(&state, 0, offsetof(__typeof__(state), records));
    pthread_mutex_unlock(&lock);
}

void fake_limits(int64_t max_batch_tokens, int64_t max_batch_requests)
{
    pthread_mutex_lock(&lock);
    state.max_batch_tokens = max_batch_tokens;
    state.max_batch_requests = max_batch_requests;
    pthread_mutex_unlock(&lock);
}

int64_t fake_violations(void)
{
    pthread_mutex_lock(&lock);
    int64_t violations = state.violations;
    pthread_mutex_unlock(&lock);
    return violations;
}

static void gate_set(bool closed, int64_t passes, const struct model *model)
{
    pthread_mutex_lock(&lock);
    state.gate_closed = closed;
    if (passes == 0)
        state.gate_model = model;
    state.passes = passes ? state.passes + passes : 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void fake_gate_close(void)
{
    gate_set(true, 0, NULL);
}

void fake_gate_open(void)
{
    gate_set(false, 0, NULL);
}

void fake_gate_pass(void)
{
    gate_set(true, 1, NULL);
}

void fake_pace(int64_t ns_per_token)
{
    pthread_mutex_lock(&lock);
    state.ns_per_token = ns_per_token;
    pthread_mutex_unlock(&lock);
}

void fake_on_batch(void (*call)(const struct model *model, const struct engine_item *items, int64_t n_items))
{
    pthread_mutex_lock(&lock);
    state.on_batch = call;
    pthread_mutex_unlock(&lock);
}

void fake_cold_lane(int lane)
{
    pthread_mutex_lock(&lock);
    state.cold_lane = lane + 1;
    pthread_mutex_unlock(&lock);
}

int64_t fake_warm_ups(void)
{
    pthread_mutex_lock(&lock);
    int64_t count = state.warm_ups;
    pthread_mutex_unlock(&lock);
    return count;
}

void fake_gate_close_for(const struct model *model)
{
    gate_set(true, 0, model);
}

void fake_lanes(struct model *model, int first_lane, int n_lanes)
{
    model->info.first_lane = first_lane;
    model->info.n_lanes = n_lanes;
}

void fake_wait_for_batches(int64_t count)
{
    pthread_mutex_lock(&lock);
    while (state.n_records < count)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

int64_t fake_batches(void)
{
    pthread_mutex_lock(&lock);
    int64_t count = state.n_records;
    pthread_mutex_unlock(&lock);
    return count;
}

int64_t fake_batch(int64_t index, const struct model **model, int32_t *ids, int64_t size)
{
    pthread_mutex_lock(&lock);
    const struct record *record = &state.records[index];
    int64_t n_items = index < state.n_records ? record->n_items : 0;
    if (model)
        *model = n_items ? record->model : NULL;
    for (int64_t i = 0; i < n_items && i < size; i++)
        ids[i] = record->ids[i];
    pthread_mutex_unlock(&lock);
    return n_items;
}

int fake_batch_lane(int64_t index)
{
    pthread_mutex_lock(&lock);
    int lane = state.records[index].lane;
    pthread_mutex_unlock(&lock);
    return lane;
}

void fake_lane_works(int lane, bool works)
{
    pthread_mutex_lock(&lock);
    state.failed[lane] = !works;
    pthread_mutex_unlock(&lock);
}

float fake_hidden(int32_t id, int64_t row, int64_t column)
{
    return (float)id + (float)row / 64 + (float)column / 1024;
}

/* The columns are permuted, so that top-k has to sort. */
float fake_output(int32_t id, int64_t row, int64_t column)
{
    return (float)((column * 7 + id + row * 3) % 1009) / 16;
}

/* ---- engine.h ---- */

int engine_open(const struct engine_options *options, struct engine **engine, struct error *error)
{
    char name[DEVICE_CHOICE_NAME_BYTES];
    if (options->device.kind == DEVICE_CUDA)
        return error_set(error, "device: expected auto or cpu, found %s", device_choice_name(&options->device, name));
    *engine = calloc(1, sizeof **engine);
    if (!*engine)
        return error_set(error, "out of memory");
    (*engine)->options = *options;
    return 0;
}

void engine_close(struct engine *engine)
{
    free(engine);
}

const char *engine_device(const struct engine *engine)
{
    (void)engine;
    return "cpu";
}

const char *engine_notice(const struct engine *engine)
{
    (void)engine;
    return NULL;
}

const char *engine_cpu_notice(const struct engine *engine)
{
    (void)engine;
    return NULL;
}

bool engine_is_on_cpu(const struct engine *engine)
{
    (void)engine;
    return true;
}

enum dtype engine_dtype(const struct engine *engine)
{
    (void)engine;
    return DTYPE_F32;
}

const char *engine_kernels(const struct engine *engine)
{
    (void)engine;
    return "fake";
}

int engine_devices(const struct engine *engine, struct engine_device *devices, int room)
{
    (void)engine;
    if (room > 0)
        *devices = (struct engine_device){.name = "cpu", .kernels = "fake", .works = true};
    return room > 0;
}

struct engine_counts engine_counts(const struct engine *engine)
{
    (void)engine;
    return (struct engine_counts){0};
}

static const struct model_input default_input = {
    .name = "x", .kind = INPUT_IDS, .columns = 1, .min_length = 1, .max_length = FAKE_MAX_LENGTH, .own_limit = true};
static const char *const output_names[] = {"output"};
static const struct model_info default_info = {
    .outputs = output_names,
    .n_outputs = 1,
    .architecture = "fake.LM",
    .inputs = &default_input,
    .n_inputs = 1,
    .vocabulary = FAKE_VOCABULARY,
    .output_columns = FAKE_VOCABULARY,
    .hidden_columns = FAKE_COLUMNS,
    .has_logits = true,
    .parameters = 4000,
    .weights_bytes = 16000,
    .arena_bytes = 32000,
    .device = "cpu",
    .is_on_cpu = true,
    .dtype = DTYPE_F32,
    .kernels = "fake",
    .n_lanes = 1,
    .batch_invariant = true,
    .padding = "slice",
};

struct model *fake_model(const struct model_info *info)
{
    struct model *model = calloc(1, sizeof *model);
    info = info ? info : &default_info;
    char *architecture = model ? strdup(info->architecture) : NULL;
    if (!architecture) {
        free(model);
        return NULL;
    }
    model->info = *info;
    model->info.n_lanes = info->n_lanes ? info->n_lanes : 1;
    model->info.n_devices = info->n_devices ? info->n_devices : 1;
    memcpy(model->inputs, info->inputs, sizeof *info->inputs * (size_t)info->n_inputs);
    model->info.inputs = model->inputs;
    model->info.architecture = model->architecture = architecture;
    return model;
}

/* The fake model has the settings of the config. It is a language model of num_tokens ids if kwargs contains
 * num_tokens. Otherwise its input is rows of FAKE_COLUMNS floats. */
int engine_load(struct engine *engine, const struct model_config *config, struct weights *weights,
                void (*progress)(void *context, double fraction), void *context, struct model **model,
                struct error *error)
{
    (void)engine;
    (void)weights;
    struct model_info info = default_info;
    struct model_input input = default_input;
    const json_t *num_tokens = json_object_get(config->kwargs, "num_tokens");
    info.architecture = config->architecture;
    info.inputs = &input;
    info.vocabulary = num_tokens ? json_integer_value(num_tokens) : 0;
    info.has_logits = num_tokens != NULL;
    info.output_columns = num_tokens ? info.vocabulary : FAKE_COLUMNS;
    if (!num_tokens) {
        input.kind = INPUT_ROWS;
        input.columns = FAKE_COLUMNS;
    }
    info.pooling = config->pooling;
    info.normalize = config->normalize;
    info.auto_truncate = config->auto_truncate;
    *model = fake_model(&info);
    if (progress)
        progress(context, 1);
    return *model ? 0 : error_set(error, "out of memory");
}

void model_close(struct model *model)
{
    if (model)
        free(model->architecture);
    free(model);
}

const struct model_info *model_info(const struct model *model)
{
    return &model->info;
}

static int32_t id_at(const struct model *model, const struct engine_item *item, int64_t row)
{
    if (model->inputs[0].kind == INPUT_IDS)
        return ((const int32_t *)item->inputs[0].data)[row];
    return (int32_t)((const float *)item->inputs[0].data)[row * model->inputs[0].columns];
}

static int check_rows(const struct model *model, const struct engine_item *item, struct error *error)
{
    for (int64_t i = 0; item->rows && i < item->n_rows; i++)
        if (item->rows[i] < 0 || item->rows[i] >= item->inputs[0].length)
            return error_set(error, "row %d: expected one of %lld", item->rows[i], (long long)item->inputs[0].length);
    if (item->top_k < 0 || item->top_k > model->info.output_columns)
        return error_set(error, "top_k: expected at most %lld, found %lld", (long long)model->info.output_columns,
                         (long long)item->top_k);
    return 0;
}

int model_check(const struct model *model, const struct engine_item *item, struct error *error)
{
    for (int i = 0; i < model->info.n_inputs; i++) {
        const struct model_input *input = &model->inputs[i];
        int64_t length = item->inputs[i].length;
        if (!item->inputs[i].data && !input->optional)
            return error_set(error, "%s: expected a tensor, found none", input->name);
        if (item->inputs[i].data && (length < input->min_length || length > input->max_length))
            return error_set(error, "%s: expected %lld to %lld rows, found %lld", input->name,
                             (long long)input->min_length, (long long)input->max_length, (long long)length);
    }
    for (int64_t row = 0; model->inputs[0].kind == INPUT_IDS && row < item->inputs[0].length; row++) {
        int32_t id = id_at(model, item, row);
        if (id < 0 || id >= model->info.vocabulary)
            return error_set(error, "%s: id %d at row %lld, expected less than %lld", model->inputs[0].name, id,
                             (long long)row, (long long)model->info.vocabulary);
    }
    return check_rows(model, item, error);
}

int model_output_shape(const struct model *model, const struct engine_item *item, int output, int64_t *shape)
{
    (void)output; /* the fake model has only one output */
    shape[0] = item->inputs[0].length;
    shape[1] = model->info.output_columns;
    return 2;
}

int64_t model_hidden_rows(const struct model *model, const struct engine_item *item)
{
    return model->info.gives_vector ? 1 : item->inputs[0].length;
}

int64_t model_item_tokens(const struct model *model, const struct engine_item *item)
{
    (void)model;
    return item->inputs[0].length > 0 ? item->inputs[0].length : 1;
}

double model_item_flops(const struct model *model, const struct engine_item *item)
{
    return (double)model_item_tokens(model, item);
}

int model_warm_up(struct model *model, int lane, double *flops, struct error *error)
{
    pthread_mutex_lock(&lock);
    bool cold = state.cold_lane == model->info.first_lane + lane + 1;
    state.warm_ups++;
    pthread_mutex_unlock(&lock);
    *flops = 0;
    return cold ? error_set(error, "the fake device is cold") : 0;
}

/* Sleeps until `ns` nanoseconds have passed since `start`. */
static void take_time(const struct timespec *start, int64_t ns)
{
    struct timespec end = *start;
    end.tv_sec += ns / 1000000000;
    end.tv_nsec += ns % 1000000000;
    if (end.tv_nsec >= 1000000000) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000;
    }
    while (ns > 0 && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) != 0)
        ;
}

static float with_trouble(int32_t id, float value)
{
    return id == FAKE_ID_NAN ? NAN : id == FAKE_ID_INFINITE ? INFINITY : value;
}

static float hidden_at(const struct model *model, const struct engine_item *item, int64_t row, int64_t column)
{
    int32_t id = id_at(model, item, row);
    return with_trouble(id, fake_hidden(id, row, column));
}

static float output_at(const struct model *model, const struct engine_item *item, int64_t row, int64_t column)
{
    int32_t id = id_at(model, item, row);
    bool sorted = !model->info.has_logits && !model->info.gives_vector;
    return with_trouble(id, sorted ? fake_hidden(id, row, column) : fake_output(id, row, column));
}

static float pooled_at(const struct model *model, const struct engine_item *item, int64_t column)
{
    int64_t length = item->inputs[0].length;
    if (item->pooling == POOLING_CLS || item->pooling == POOLING_LAST)
        return hidden_at(model, item, item->pooling == POOLING_CLS ? 0 : length - 1, column);
    float sum = 0, most = -INFINITY;
    for (int64_t row = 0; row < length; row++) {
        float value = hidden_at(model, item, row, column);
        sum += value;
        most = value > most || isnan(value) ? value : most;
    }
    return item->pooling == POOLING_MAX ? most : sum / (float)length;
}

/* Returns the probability from the logit, the largest logit and the sum of the softmax. If the sum is 0, no softmax was
 * requested, and the result is the logit. */
static float probability(float logit, float most, double sum)
{
    return sum > 0 ? (float)(exp((double)logit - most) / sum) : logit;
}

static void run_output_row(const struct model *model, const struct engine_item *item, int64_t index)
{
    int64_t row = item->rows ? item->rows[index] : index, columns = model->info.output_columns;
    float most = -INFINITY;
    double sum = 0;
    for (int64_t column = 0; (item->softmax || item->targets) && column < columns; column++)
        most = fmaxf(most, output_at(model, item, row, column));
    for (int64_t column = 0; (item->softmax || item->targets) && column < columns; column++)
        sum += exp((double)output_at(model, item, row, column) - most);
    if (item->targets) {
        int32_t target = item->targets[index];
        item->log_probabilities[index] =
            target < 0 ? 0 : (float)((double)output_at(model, item, row, target) - most - log(sum));
    }
    sum = item->softmax ? sum : 0;
    for (int64_t column = 0; item->output && item->top_k == 0 && column < columns; column++)
        item->output[index * columns + column] = probability(output_at(model, item, row, column), most, sum);

    int32_t *best = item->top_k ? item->top_columns + index * item->top_k : NULL;
    for (int64_t found = 0; found < item->top_k; found++) {
        int32_t choice = -1;
        for (int32_t column = 0; column < columns; column++) {
            float value = output_at(model, item, row, column);
            bool after = found == 0 || value < output_at(model, item, row, best[found - 1]) ||
                         (value == output_at(model, item, row, best[found - 1]) && column > best[found - 1]);
            if (after && (choice < 0 || value > output_at(model, item, row, choice)))
                choice = column;
        }
        best[found] = choice < 0 ? (int32_t)found : choice; /* no column is found if the rest of the row is NaN */
        item->top_values[index * item->top_k + found] =
            probability(output_at(model, item, row, best[found]), most, sum);
    }
}

static void run_item(const struct model *model, const struct engine_item *item)
{
    for (int64_t row = 0; item->hidden && row < item->inputs[0].length; row++)
        for (int64_t column = 0; column < model->info.hidden_columns; column++)
            item->hidden[row * model->info.hidden_columns + column] = hidden_at(model, item, row, column);
    for (int64_t column = 0; item->pooled && column < model->info.hidden_columns; column++)
        item->pooled[column] = pooled_at(model, item, column);
    for (int64_t index = 0; engine_item_wants_rows(item) && index < item->n_rows; index++)
        run_output_row(model, item, index);
}

/* The caller holds the lock. */
static void record_batch(const struct model *model, int lane, const struct engine_item *items, int64_t n_items)
{
    bool *running = &state.running[model->info.first_lane + lane];
    int64_t tokens = 0;
    struct record record = {.model = model,
                            .lane = model->info.first_lane + lane,
                            .n_items = n_items,
                            .ids = calloc((size_t)n_items, sizeof *record.ids)};
    for (int64_t i = 0; i < n_items; i++) {
        tokens += model_item_tokens(model, &items[i]);
        record.ids[i] = id_at(model, &items[i], 0);
    }
    if (state.n_records < MAX_RECORDED)
        state.records[state.n_records++] = record;
    else
        free(record.ids);
    state.violations += n_items < 1 || lane < 0 || lane >= model->info.n_lanes || *running ||
                        (state.max_batch_requests && n_items > state.max_batch_requests) ||
                        (state.max_batch_tokens && n_items > 1 && tokens > state.max_batch_tokens);
    *running = true;
}

/* The caller holds the lock. */
static bool gate_stops(const struct model *model)
{
    return state.gate_closed && (!state.gate_model || state.gate_model == model);
}

int model_run(struct model *model, int lane, const struct engine_item *items, int64_t n_items, struct error *error)
{
    pthread_mutex_lock(&lock);
    record_batch(model, lane, items, n_items);
    pthread_cond_broadcast(&changed);
    while (gate_stops(model) && state.passes == 0)
        pthread_cond_wait(&changed, &lock);
    if (gate_stops(model))
        state.passes--;
    int64_t ns_per_token = state.ns_per_token, tokens = 0;
    void (*on_batch)(const struct model *, const struct engine_item *, int64_t) = state.on_batch;
    pthread_mutex_unlock(&lock);
    if (on_batch)
        on_batch(model, items, n_items);

    struct timespec start;
    clock_gettime(CLOCK_MONOTONIC, &start);
    int status = 0;
    for (int64_t i = 0; i < n_items; i++) {
        run_item(model, &items[i]);
        tokens += model_item_tokens(model, &items[i]);
        for (int64_t row = 0; row < items[i].inputs[0].length; row++)
            if (id_at(model, &items[i], row) == FAKE_ID_FAIL)
                status = error_set(error, "the fake device failed");
    }
    take_time(&start, tokens * ns_per_token);
    pthread_mutex_lock(&lock);
    state.running[model->info.first_lane + lane] = false;
    pthread_mutex_unlock(&lock);
    return status;
}

uint64_t model_ready_lanes(const struct model *model)
{
    uint64_t ready = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < model->info.n_lanes; i++)
        ready |= (uint64_t)!state.failed[model->info.first_lane + i] << i;
    pthread_mutex_unlock(&lock);
    return ready ? ready : 1;
}

void model_explain(const struct model *model, int64_t tokens, FILE *out)
{
    fprintf(out, "fake plan for %lld tokens\nweights_bytes %zu\narena_bytes %zu\n", (long long)tokens,
            model->info.weights_bytes, model->info.arena_bytes);
}

/* The fake plan has no steps. */
int model_n_steps(const struct model *model)
{
    (void)model;
    return 0;
}

int64_t model_explained_rows(const struct model *model, int64_t tokens)
{
    (void)model;
    return tokens;
}

void model_step_describe(const struct model *model, int64_t rows, int index, struct model_step *step)
{
    (void)model;
    (void)rows;
    (void)index;
    *step = (struct model_step){0};
}
