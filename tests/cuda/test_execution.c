/* How batches run on the CUDA backend. Batches have the same batch shape if they launch the same kernels with the same
 * arguments.
 * - Batches of the same batch shape replay a CUDA graph, in any order of batches. The number of graphs is limited.
 * - Without graphs, the results are the same.
 * - Two lanes of the engine, each of which runs one batch, run at the same time.
 * - Algorithms of matrix products are chosen and timed before the first batch.
 * - Results that do not fit into the memory for results are copied in halves.
 * Most tests compare results with those of single launches. On the shim the bits must be equal, except for results in
 * halves and for products of the engine's own kernels. The products of the shim always add in the same order. On a
 * device the algorithms may differ at each load, and there are no counts. SEED chooses the batches. */
#include "engine/engine.h"
#include "tests/cuda/counts.h"
#include "tests/cuda/schedules.h"
#include "tests/cuda/shim/small_limits.h"
#include "tests/unit/loaded.h"
#include "tests/unit/tensors.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define LAYER "linformer.net.layers.0."

enum { IDS = 48, DIM = 16, SEQ_LEN = 200, K = 8, HEADS = 2, HIDDEN = 4 * DIM };
enum { BATCHES = 14, ITEMS = 5, MAX_TOKENS = 240, ROUNDS = 3, TURNS = 10, MAX_TOP_K = 5 };

static const struct tensor_shape shapes[] = {
    {"token_emb.weight", IDS, DIM},       {"pos_emb.weight", SEQ_LEN, DIM},
    {LAYER "0.norm.weight", 0, DIM},      {LAYER "0.norm.bias", 0, DIM},
    {LAYER "0.fn.to_q.weight", DIM, DIM}, {LAYER "0.fn.to_k.weight", DIM, DIM},
    {LAYER "0.fn.to_v.weight", DIM, DIM}, {LAYER "0.fn.proj_k", SEQ_LEN, K},
    {LAYER "0.fn.proj_v", SEQ_LEN, K},    {LAYER "0.fn.to_out.weight", DIM, DIM},
    {LAYER "0.fn.to_out.bias", 0, DIM},   {LAYER "1.norm.weight", 0, DIM},
    {LAYER "1.norm.bias", 0, DIM},        {LAYER "1.fn.w1.weight", HIDDEN, DIM},
    {LAYER "1.fn.w1.bias", 0, HIDDEN},    {LAYER "1.fn.w2.weight", DIM, HIDDEN},
    {LAYER "1.fn.w2.bias", 0, DIM},       {"to_logits.weight", IDS, DIM},
    {"to_logits.bias", 0, IDS},
};

/* Memory for the inputs of an item, and for all results that it may request. */
struct sample {
    int32_t ids[SEQ_LEN], rows[SEQ_LEN], targets[SEQ_LEN];
    float hidden[SEQ_LEN * DIM], pooled[DIM], output[SEQ_LEN * IDS], log_probabilities[SEQ_LEN],
        top_values[SEQ_LEN * MAX_TOP_K];
    int32_t top_columns[SEQ_LEN * MAX_TOP_K];
};

struct batch_of_samples {
    int64_t n_items;
    struct engine_item items[ITEMS];
    struct sample samples[ITEMS], expected[ITEMS];
};

static struct batch_of_samples batches[BATCHES];

static int64_t tuning_ms = 1000000000;          /* more time than all products take */
static enum cuda_f32 cuda_f32 = CUDA_F32_PLAIN; /* cuBLASLt computes the products, and the shim counts its algorithms */

/* Loads a model with a vocabulary of `ids` ids into the engine. If the engine is NULL, opens a new engine. */
static void open_model_in(struct engine *engine, int64_t ids, struct loaded *loaded)
{
    const size_t n_shapes = sizeof shapes / sizeof *shapes;
    struct tensor_shape own[sizeof shapes / sizeof *shapes];
    struct engine_options options = {.device = {DEVICE_CUDA},
                                     .dtype = DTYPE_F32,
                                     .cuda_f32 = cuda_f32,
                                     .threads = 1,
                                     .cuda_tuning_ms = tuning_ms,
                                     .max_batch_tokens = MAX_TOKENS,
                                     .max_batch_requests = ITEMS};
    char text[256];
    struct model_config config;
    struct error error;
    void *file;
    *loaded = (struct loaded){engine, NULL};
    memcpy(own, shapes, sizeof shapes);
    own[0].rows = own[n_shapes - 2].rows = own[n_shapes - 1].columns = ids;
    int length = snprintf(text, sizeof text,
                          "{\"architecture\": \"linformer.LinformerLM\", \"kwargs\": {\"num_tokens\": %d, \"dim\": %d, "
                          "\"seq_len\": %d, \"depth\": 1, \"k\": %d, \"heads\": %d}}",
                          (int)ids, DIM, SEQ_LEN, K, HEADS);
    random_seed(1);
    struct weights *weights = tensors_random(own, n_shapes, &file);
    if (!engine)
        must(engine_open(&options, &loaded->engine, &error), &error);
    must(model_config_parse(text, (size_t)length, "execution", &config, &error), &error);
    must(engine_load(loaded->engine, &config, weights, NULL, NULL, &loaded->model, &error), &error);
    model_config_free(&config);
    weights_close(weights);
    free(file);
}

static void open_model(struct loaded *loaded)
{
    open_model_in(NULL, IDS, loaded);
}

/* If a device fails or refuses a batch, the CPU computes the batch with nearly the same results. This function
 * therefore expects that the CPU computed no batch. */
static void close_model(struct loaded *loaded)
{
    assert_int_equal(engine_counts(loaded->engine).standby_batches, 0);
    unload(loaded);
}

/* ---- Random batches ---- */

static void want_rows(struct engine_item *item, struct sample *sample, int64_t length)
{
    item->n_rows = random_size(1, length);
    if (item->n_rows < length)
        item->rows = sample->rows;
    for (int64_t i = 0; i < item->n_rows; i++)
        sample->rows[i] = (int32_t)random_size(0, length - 1);
    item->softmax = random_size(0, 1);
    if (random_size(0, 1)) {
        for (int64_t i = 0; i < item->n_rows; i++)
            sample->targets[i] = (int32_t)random_size(-1, IDS - 1);
        item->targets = sample->targets;
        item->log_probabilities = sample->log_probabilities;
    }
    int64_t form = random_size(item->targets ? -1 : 0, 1);
    if (form == 0)
        item->output = sample->output;
    if (form != 1)
        return;
    item->top_k = random_size(1, MAX_TOP_K);
    item->top_values = sample->top_values;
    item->top_columns = sample->top_columns;
}

static void make_item(struct engine_item *item, struct sample *sample, int64_t length)
{
    memset(item, 0, sizeof *item);
    memset(sample, 0, sizeof *sample);
    for (int64_t i = 0; i < length; i++)
        sample->ids[i] = (int32_t)random_size(0, IDS - 1);
    item->inputs[0].data = sample->ids;
    item->inputs[0].length = length;
    int64_t wants = random_size(1, 7);
    if (wants & 1)
        item->hidden = sample->hidden;
    if (wants & 2) {
        item->pooled = sample->pooled;
        item->pooling = (enum pooling)random_size(0, POOLING_COUNT - 1);
    }
    if (wants & 4)
        want_rows(item, sample, length);
}

/* Makes a random batch. Every second batch always runs as a graph, and has its own batch shape. The results of these
 * batches fit into the memory for results, and these batches have too few rows for separate computation of full
 * items. */
static void make_batch(const struct loaded *loaded, int index, struct batch_of_samples *batch)
{
    int64_t room = index % 2 ? random_size(ITEMS, MAX_TOKENS) : 8 * (index + 2);
    struct error error;
    batch->n_items = index % 4 ? random_size(1, ITEMS) : 1;
    for (int64_t i = 0; i < batch->n_items; i++) {
        int64_t others = batch->n_items - i - 1, length = others ? random_size(1, room - others) : room;
        length = length < SEQ_LEN ? length : SEQ_LEN;
        room -= length;
        make_item(&batch->items[i], &batch->samples[i], length);
        if (index % 4 == 0)
            batch->items[i] =
                (struct engine_item){.inputs[0] = batch->items[i].inputs[0], .hidden = batch->samples[i].hidden};
        must(model_check(loaded->model, &batch->items[i], &error), &error);
    }
}

/* Clears the results. Missing results are then 0. */
static void forget(struct batch_of_samples *batch)
{
    for (int64_t i = 0; i < batch->n_items; i++)
        memset(batch->samples[i].hidden, 0, sizeof(struct sample) - offsetof(struct sample, hidden));
}

static void run(const struct loaded *loaded, int lane, struct batch_of_samples *batch)
{
    struct error error;
    forget(batch);
    must(model_run(loaded->model, lane, batch->items, batch->n_items, &error), &error);
}

/* Compares results with a tolerance, except top_columns. Columns with nearly equal values may have another order. */
static bool is_near(const struct sample *found, const struct sample *expected)
{
    const float *a = found->hidden, *b = expected->hidden;
    size_t floats = (offsetof(struct sample, top_columns) - offsetof(struct sample, hidden)) / sizeof *a;
    for (size_t i = 0; i < floats; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-4f))
            return false;
    return true;
}

static bool is_as_expected(const struct batch_of_samples *batch)
{
    if (!on_device())
        return memcmp(batch->samples, batch->expected, (size_t)batch->n_items * sizeof batch->samples[0]) == 0;
    for (int64_t i = 0; i < batch->n_items; i++)
        if (!is_near(&batch->samples[i], &batch->expected[i]))
            return false;
    return true;
}

static void compare(const struct batch_of_samples *batch)
{
    assert_true(is_as_expected(batch));
}

/* Makes the batches, and computes their expected results without graphs. */
static void make_batches(void)
{
    struct loaded loaded;
    setenv("SHIM_GRAPHS", "0", 1);
    open_model(&loaded);
    random_seed(getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 20261121);
    for (int i = 0; i < BATCHES; i++) {
        make_batch(&loaded, i, &batches[i]);
        for (int again = 0; again < 3; again++) {
            run(&loaded, 0, &batches[i]);
            if (again > 0)
                compare(&batches[i]);
            memcpy(batches[i].expected, batches[i].samples, sizeof batches[i].samples);
        }
    }
    assert_int_equal(count(INSTANTIATED), count(DESTROYED));
    close_model(&loaded);
    unsetenv("SHIM_GRAPHS");
}

/* ---- Tests ---- */

static void test_the_setting_without_graphs_launches_no_graph(void **state)
{
    (void)state;
    uint64_t launched = count(GRAPH_LAUNCHES);
    make_batches();
    assert_int_equal(count(GRAPH_LAUNCHES), launched);
}

/* From the third run of a batch shape on, a batch needs only one launch, that of a graph. At least half of the batches
 * must replay a graph. */
static void test_repeated_batch_shapes_replay_a_graph(void **state)
{
    (void)state;
    struct loaded loaded;
    int replayed = 0;
    open_model(&loaded);
    uint64_t pageable = count(PAGEABLE_COPIES);
    for (int i = 0; i < BATCHES; i++) {
        uint64_t launched = 0, graphs = 0;
        for (int round = 0; round < ROUNDS; round++) {
            launched = count(LAUNCHES);
            graphs = count(GRAPH_LAUNCHES);
            run(&loaded, 0, &batches[i]);
            compare(&batches[i]);
        }
        replayed += count(GRAPH_LAUNCHES) == graphs + 1 && count(LAUNCHES) == launched;
    }
    print_message("%d of %d batches replay a graph\n", replayed, BATCHES);
    assert_true(on_device() || replayed >= BATCHES / 2);
    assert_int_equal(count(PAGEABLE_COPIES), pageable);
    close_model(&loaded);
    assert_int_equal(count(INSTANTIATED), count(DESTROYED));
}

/* Requests all rows of the sample's output. */
static void run_output(const struct loaded *loaded, const struct engine_item *item, struct sample *sample)
{
    struct engine_item wants = {.inputs[0] = item->inputs[0], .output = sample->output};
    struct error error;
    wants.n_rows = item->inputs[0].length;
    must(model_run(loaded->model, 0, &wants, 1, &error), &error);
}

/* Runs single items of various lengths. The engine chooses the fastest algorithms when it loads the model. No batch may
 * therefore wait for this choice. */
static void test_products_are_chosen_at_load(void **state)
{
    (void)state;
    struct loaded loaded;
    uint64_t before = count(HEURISTICS), slow_before = count(SLOW_PRODUCTS);
    open_model(&loaded);
    uint64_t chosen = count(HEURISTICS), slow = count(SLOW_PRODUCTS);
    assert_true(on_device() || (chosen > before && slow > slow_before));
    for (int i = 0; i < BATCHES; i += 4) {
        run(&loaded, 0, &batches[i]);
        compare(&batches[i]);
        run_output(&loaded, &batches[i].items[0], &batches[i].samples[0]);
    }
    assert_int_equal(count(HEURISTICS), chosen);
    assert_int_equal(count(SLOW_PRODUCTS), slow);
    close_model(&loaded);
}

/* Without time for measurements, the engine uses the first algorithm, which is slow. */
static void test_without_time_to_measure_the_first_algorithm_runs(void **state)
{
    (void)state;
    struct loaded loaded;
    int64_t kept = tuning_ms;
    tuning_ms = 0;
    uint64_t slow = count(SLOW_PRODUCTS);
    open_model(&loaded);
    assert_int_equal(count(SLOW_PRODUCTS), slow);
    for (int i = 0; i < BATCHES; i++) {
        run(&loaded, 0, &batches[i]);
        compare(&batches[i]);
    }
    assert_true(on_device() || count(SLOW_PRODUCTS) > slow);
    close_model(&loaded);
    tuning_ms = kept;
}

/* With CUDA_F32_TENSOR, a kernel of the engine computes a product unless cuBLASLt was measured to be faster.
 * SHIM_KERNEL_MS makes cuBLASLt slower than the kernel. */
static void test_own_kernels_multiply_unless_cublaslt_is_faster(void **state)
{
    (void)state;
    struct loaded loaded;
    int64_t kept = tuning_ms;
    cuda_f32 = CUDA_F32_TENSOR;
    setenv("SHIM_KERNEL_MS", "0", 1);
    for (int i = 0; i < 2; i++) {
        tuning_ms = i; /* 1 ms is enough for the largest product */
        open_model(&loaded);
        uint64_t slow = count(SLOW_PRODUCTS), before = launches_of("multiply_split<");
        for (int j = 0; j < 3; j++) {
            run(&loaded, 0, &batches[j]);
            for (int64_t k = 0; k < batches[j].n_items; k++)
                assert_true(is_near(&batches[j].samples[k], &batches[j].expected[k]));
        }
        assert_int_equal(count(SLOW_PRODUCTS), slow);
        assert_true(on_device() || launches_of("multiply_split<") > before);
        close_model(&loaded);
    }
    tuning_ms = kept;
    cuda_f32 = CUDA_F32_PLAIN;
    unsetenv("SHIM_KERNEL_MS");
}

/* The largest product is timed first. Its first algorithm is the fastest, and is timed while the device is still slow.
 * The engine must still choose this algorithm. */
static void test_a_cold_device_does_not_mislead_the_choice_of_products(void **state)
{
    (void)state;
    struct loaded loaded;
    struct engine_item items[2] = {0};
    struct error error;
    if (on_device()) /* a real device cannot be made slow */
        return;
    setenv("SHIM_COLD", "4", 1); /* one product alone, and the timed products: MEASUREMENTS in fastest.cu */
    open_model(&loaded);
    for (int i = 0; i < 2; i++)
        items[i] = (struct engine_item){.inputs[0] = {.data = batches[0].samples[0].ids, .length = MAX_TOKENS / 2},
                                        .pooled = batches[0].samples[i].pooled};
    uint64_t slow = count(SLOW_PRODUCTS);
    must(model_run(loaded.model, 0, items, 2, &error), &error);
    unsetenv("SHIM_COLD");
    assert_int_equal(count(SLOW_PRODUCTS), slow);
    unload(&loaded);
}

enum { PART = 10, LONG = 150, SHORT = 40 };

/* Runs the rows [first, first + PART) of the sample alone, so that the results fit into the memory for results.
 * Compares the results, but not the hidden states. */
static void compare_part(const struct loaded *loaded, const struct engine_item *item, const struct sample *sample,
                         int64_t first)
{
    static struct sample part;
    struct engine_item wants = *item;
    struct error error;
    memset(&part, 0, sizeof part);
    for (int32_t i = 0; i < PART; i++)
        part.rows[i] = (int32_t)first + i;
    wants.rows = part.rows;
    wants.n_rows = PART;
    wants.hidden = NULL;
    wants.output = item->output ? part.output : NULL;
    wants.top_values = part.top_values;
    wants.top_columns = part.top_columns;
    wants.targets = item->targets ? item->targets + first : NULL;
    wants.log_probabilities = part.log_probabilities;
    must(model_run(loaded->model, 0, &wants, 1, &error), &error);
    for (int64_t i = 0; i < PART * IDS && item->output; i++)
        assert_true(fabsf(part.output[i] - sample->output[first * IDS + i]) <= 1e-4f);
    for (int64_t i = 0; i < PART && item->targets; i++)
        assert_true(fabsf(part.log_probabilities[i] - sample->log_probabilities[first + i]) <= 1e-4f);
    for (int64_t i = 0; i < PART * item->top_k; i++) {
        assert_true(fabsf(part.top_values[i] - sample->top_values[first * item->top_k + i]) <= 1e-4f);
        assert_true(on_device() || part.top_columns[i] == sample->top_columns[first * item->top_k + i]);
    }
}

/* Results that do not fit into the memory for results: many small pieces and few large pieces. Each item must receive
 * all its results, of which hidden states are not compared. The engine waits whenever half of this memory is full, in
 * bytes or in pieces. Meanwhile the device continues. */
static void test_results_larger_than_their_memory_are_complete(void **state)
{
    (void)state;
    static struct sample samples[2];
    struct engine_item items[2] = {0};
    struct loaded loaded;
    struct error error;
    int64_t kept = tuning_ms;
    tuning_ms = 0;
    open_model(&loaded);
    tuning_ms = kept;
    make_item(&items[0], &samples[0], LONG);
    make_item(&items[1], &samples[1], SHORT);
    for (int i = 0; i < 2; i++)
        items[i] = (struct engine_item){.inputs[0] = items[i].inputs[0], .n_rows = items[i].inputs[0].length};
    items[0].output = samples[0].output;
    items[1].hidden = samples[1].hidden;
    items[1].top_k = MAX_TOP_K;
    items[1].top_values = samples[1].top_values;
    items[1].top_columns = samples[1].top_columns;
    for (int i = 0; i < 2; i++) {
        for (int64_t row = 0; row < items[i].n_rows; row++)
            samples[i].targets[row] = (int32_t)random_size(-1, IDS - 1);
        items[i].targets = samples[i].targets;
        items[i].log_probabilities = samples[i].log_probabilities;
    }
    size_t bytes = (LONG * (IDS + 1) + SHORT * (DIM + 2 * MAX_TOP_K + 1)) * sizeof(float);
    uint64_t waits = count(WAITS), idle = count(IDLE_WAITS);
    must(model_run(loaded.model, 0, items, 2, &error), &error);
    waits = count(WAITS) - waits;
    idle = count(IDLE_WAITS) - idle;
    print_message("%zu bytes, waited for %llu times, %llu of them idle\n", bytes, (unsigned long long)waits,
                  (unsigned long long)idle);
    assert_true(bytes > RESULTS_BYTES);
    assert_true(waits <= bytes / (RESULTS_BYTES / 2) + 2 * SHORT / PIECES + 3);
    assert_true(idle <= 1);
    for (int64_t first = 0; first < LONG; first += PART)
        compare_part(&loaded, &items[0], &samples[0], first);
    for (int64_t first = 0; first < SHORT; first += PART)
        compare_part(&loaded, &items[1], &samples[1], first);
    unload(&loaded);
}

struct loading {
    struct engine *engine;
    int64_t ids;
    struct loaded loaded;
    atomic_bool ended;
};

static void *load_beside(void *given)
{
    struct loading *loading = given;
    open_model_in(loading->engine, loading->ids, &loading->loaded);
    atomic_store(&loading->ended, true);
    return NULL;
}

/* Loads a model with a vocabulary of `ids` ids, and runs batches of another model at the same time. Returns whether a
 * batch ran between two measurements of products. */
static bool runs_between_measurements(struct loaded *loaded, int64_t ids)
{
    struct loading loading = {.engine = loaded->engine, .ids = ids};
    pthread_t thread;
    uint64_t none = count(MEASUREMENTS), before = none;
    bool ran = false, between = false;
    assert_int_equal(pthread_create(&thread, NULL, load_beside, &loading), 0);
    while (!atomic_load(&loading.ended) && !between) {
        uint64_t now = count(MEASUREMENTS);
        between = ran && now > before;
        if (now > none && now > before && !between) {
            run(loaded, 0, &batches[0]);
            compare(&batches[0]);
            before = count(MEASUREMENTS);
            ran = true;
        }
        sched_yield();
    }
    pthread_join(thread, NULL);
    model_close(loading.loaded.model);
    return between;
}

/* While the products of a new model are timed, batches of other models must not wait. */
static void test_batches_do_not_wait_while_products_are_timed(void **state)
{
    (void)state;
    struct loaded loaded;
    bool between = false;
    open_model(&loaded);
    /* Tries again, because the other thread may start too late. */
    for (int attempt = 0; !on_device() && attempt < 400 && !between; attempt++)
        /* the products of another vocabulary have not been timed yet */
        between = runs_between_measurements(&loaded, IDS + 1 + attempt);
    assert_true(on_device() || between);
    close_model(&loaded);
}

/* There are more batch shapes than graphs, and batches of several shapes alternate. Each shape first runs twice.
 * Afterwards random shapes run. */
static void test_the_number_of_graphs_is_limited_in_any_order(void **state)
{
    (void)state;
    struct loaded loaded;
    uint64_t most = 0, before = count(GRAPH_LAUNCHES);
    open_model(&loaded);
    for (int i = 0; i < BATCHES * TURNS; i++) {
        int64_t often = random_size(0, random_size(0, BATCHES - 1)); /* some shapes run more often than others */
        struct batch_of_samples *batch = &batches[i < 2 * BATCHES ? i / 2 : often];
        run(&loaded, 0, batch);
        compare(batch);
        uint64_t kept = count(INSTANTIATED) - count(DESTROYED);
        most = kept > most ? kept : most;
    }
    print_message("%llu graphs at most\n", (unsigned long long)most);
    if (!on_device()) {
        assert_int_equal(most, GRAPHS);
        assert_true(count(GRAPH_LAUNCHES) > before + BATCHES);
        assert_true(count(INSTANTIATED) > GRAPHS);
    }
    close_model(&loaded);
    assert_int_equal(count(INSTANTIATED), count(DESTROYED));
}

/* If only one graph can be instantiated, the batches of the other shapes are launched without graphs. */
static void test_batches_run_without_a_graph_if_none_can_be_made(void **state)
{
    (void)state;
    struct loaded loaded;
    int with_launches = 0; /* batches of the last round that launched kernels without a graph */
    setenv("SHIM_GRAPHS", "1", 1);
    open_model(&loaded);
    for (int i = 0; i < BATCHES * ROUNDS; i++) {
        uint64_t launches = count(LAUNCHES);
        run(&loaded, 0, &batches[i % BATCHES]);
        compare(&batches[i % BATCHES]);
        with_launches += i >= BATCHES * (ROUNDS - 1) && count(LAUNCHES) > launches;
    }
    assert_true(on_device() || with_launches >= BATCHES - 1);
    unsetenv("SHIM_GRAPHS");
    close_model(&loaded);
}

struct rider {
    const struct loaded *loaded;
    int lane;
    int64_t wrong;
};

/* The thread that runs a lane. It runs every second batch. */
static void *ride(void *given)
{
    struct rider *rider = given;
    struct error error;
    for (int i = 0; i < BATCHES * TURNS / 2; i++) {
        struct batch_of_samples *batch = &batches[(i * 2 + rider->lane) % BATCHES];
        forget(batch);
        bool failed = model_run(rider->loaded->model, rider->lane, batch->items, batch->n_items, &error) != 0;
        rider->wrong += failed || !is_as_expected(batch);
    }
    return NULL;
}

static void test_two_lanes_at_once_have_correct_results(void **state)
{
    (void)state;
    struct loaded loaded;
    pthread_t threads[2];
    open_model(&loaded);
    assert_int_equal(model_info(loaded.model)->n_lanes, 2);
    struct rider riders[] = {{&loaded, 0, 0}, {&loaded, 1, 0}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ride, &riders[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(riders[0].wrong + riders[1].wrong, 0);
    close_model(&loaded);
    assert_int_equal(count(INSTANTIATED), count(DESTROYED));
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_setting_without_graphs_launches_no_graph),
        cmocka_unit_test(test_repeated_batch_shapes_replay_a_graph),
        cmocka_unit_test(test_products_are_chosen_at_load),
        cmocka_unit_test(test_without_time_to_measure_the_first_algorithm_runs),
        cmocka_unit_test(test_own_kernels_multiply_unless_cublaslt_is_faster),
        cmocka_unit_test(test_a_cold_device_does_not_mislead_the_choice_of_products),
        cmocka_unit_test(test_results_larger_than_their_memory_are_complete),
        cmocka_unit_test(test_batches_do_not_wait_while_products_are_timed),
        cmocka_unit_test(test_the_number_of_graphs_is_limited_in_any_order),
        cmocka_unit_test(test_batches_run_without_a_graph_if_none_can_be_made),
        cmocka_unit_test(test_two_lanes_at_once_have_correct_results),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    print_message("SEED=%s\n", getenv("SEED") ? getenv("SEED") : "20261121");
    return run_schedules(run_all);
}
