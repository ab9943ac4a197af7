/* engine: how fast the CPU engine runs linformer.Linformer with dim 512, heads 8, k 256, seq_len 4096.
 *
 *     engine [DEPTH [SECONDS [DTYPE [BATCHxN]]]]
 *
 * DEPTH 12 by default; each line takes at least SECONDS (1); DTYPE f32 or bf16; of all shapes only BATCHxN.
 *
 * The product rate is that of the flops which `--explain` counts, of the whole forward pass. Beside it, measured in the
 * same run: what the provider of products reaches on one tile after another. */
#include "engine/engine.h"
#include "engine/cpu/products.h"
#include "tests/unit/tensors.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DIM 512
#define K 256
#define SEQ_LEN 4096
#define MAX_TENSORS 1024
#define NAME_LENGTH 64
#define MAX_BATCH 8

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Of all threads of this process: what a busy machine disturbs least. */
static double cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

struct shapes {
    struct shape all[MAX_TENSORS];
    char names[MAX_TENSORS][NAME_LENGTH];
    size_t count;
};

static void add(struct shapes *shapes, int layer, const char *name, int64_t rows, int64_t columns)
{
    snprintf(shapes->names[shapes->count], NAME_LENGTH, "net.layers.%d.%s", layer, name);
    shapes->all[shapes->count] = (struct shape){shapes->names[shapes->count], rows, columns};
    shapes->count++;
}

static void add_layer(struct shapes *shapes, int layer, bool shared)
{
    int64_t kv = shared ? DIM / 8 : DIM;
    add(shapes, layer, "0.norm.weight", 0, DIM);
    add(shapes, layer, "0.norm.bias", 0, DIM);
    add(shapes, layer, "0.fn.to_q.weight", DIM, DIM);
    add(shapes, layer, "0.fn.to_k.weight", kv, DIM);
    add(shapes, layer, "0.fn.proj_k", SEQ_LEN, K);
    if (!shared) {
        add(shapes, layer, "0.fn.to_v.weight", kv, DIM);
        add(shapes, layer, "0.fn.proj_v", SEQ_LEN, K);
    }
    add(shapes, layer, "0.fn.to_out.weight", DIM, DIM);
    add(shapes, layer, "0.fn.to_out.bias", 0, DIM);
    add(shapes, layer, "1.norm.weight", 0, DIM);
    add(shapes, layer, "1.norm.bias", 0, DIM);
    add(shapes, layer, "1.fn.w1.weight", 4 * DIM, DIM);
    add(shapes, layer, "1.fn.w1.bias", 0, 4 * DIM);
    add(shapes, layer, "1.fn.w2.weight", DIM, 4 * DIM);
    add(shapes, layer, "1.fn.w2.bias", 0, DIM);
}

static void die(const struct error *error)
{
    fprintf(stderr, "%s\n", error->message);
    exit(1);
}

static struct model *load(struct engine *engine, int depth, bool shared)
{
    static struct shapes shapes;
    char text[256];
    void *file;
    struct model_config config;
    struct model *model;
    struct error error;
    shapes.count = 0;
    for (int layer = 0; layer < depth; layer++)
        add_layer(&shapes, layer, shared);
    snprintf(text, sizeof text,
             "{\"architecture\": \"linformer.Linformer\", \"kwargs\": {\"dim\": %d, \"seq_len\": %d, \"depth\": %d, "
             "\"k\": %d, \"heads\": 8, \"one_kv_head\": %s, \"share_kv\": %s}}",
             DIM, SEQ_LEN, depth, K, shared ? "true" : "false", shared ? "true" : "false");
    struct weights *weights = tensors_random(shapes.all, shapes.count, &file);
    if (model_config_parse(text, strlen(text), "bench", &config, &error) != 0 ||
        engine_load(engine, &config, weights, NULL, NULL, &model, &error) != 0)
        die(&error);
    model_config_free(&config);
    weights_close(weights);
    free(file);
    return model;
}

/* The flops of one item, as --explain counts them. */
static double explained_flops(const struct model *model, int64_t length)
{
    char *text;
    size_t size;
    long long flops = 0;
    FILE *out = open_memstream(&text, &size);
    model_explain(model, length, out);
    fclose(out);
    sscanf(strstr(text, "\nflops "), "\nflops %lld", &flops);
    free(text);
    return (double)flops;
}

static void time_batch(struct model *model, const char *name, int64_t length, int64_t batch, double seconds)
{
    struct engine_item items[MAX_BATCH];
    struct error error;
    float *rows = malloc((size_t)(length * DIM) * sizeof *rows), pooled[DIM];
    for (int64_t i = 0; i < length * DIM; i++)
        rows[i] = random_float();
    memset(items, 0, sizeof items);
    for (int64_t i = 0; i < batch; i++) {
        items[i].inputs[0].data = rows;
        items[i].inputs[0].length = length;
        items[i].pooled = pooled;
    }
    double best = 1e9, best_cpu = 1e9, start = now_s();
    for (int runs = 0; runs < 3 || now_s() - start < seconds; runs++) {
        double begin = now_s(), begin_cpu = cpu_s();
        if (model_run(model, 0, items, batch, &error) != 0)
            die(&error);
        double took = now_s() - begin, took_cpu = cpu_s() - begin_cpu;
        best = runs > 0 && took < best ? took : best; /* the first warms caches */
        best_cpu = runs > 0 && took_cpu < best_cpu ? took_cpu : best_cpu;
    }
    printf("%-22s %6lld %6lld %10.2f %10.2f %12.0f %10.1f\n", name, (long long)length, (long long)batch, best * 1e3,
           best_cpu * 1e3, (double)(length * batch) / best,
           explained_flops(model, length) * (double)batch / best / 1e9);
    fflush(stdout);
    free(rows);
}

/* Tiles of the plan's own shapes, from memory as the engine finds them: (64, 512) x (512, 256)ᵀ …; written to where a
 * thread's own rows are. */
static void time_products(const char *dtype)
{
    struct products products;
    struct product_weight *weight;
    struct error error;
    enum instruction_set set;
    int threads = omp_get_num_procs();
    int64_t rows = 4096, columns = 2048;
    float *x = calloc((size_t)(rows * DIM), sizeof *x), *w = calloc((size_t)(columns * DIM), sizeof *w);
    float *y = calloc((size_t)(threads * PLAN_ROW_BLOCK * columns), sizeof *y);
    if (instruction_set_choose("auto", &set, &error) != 0 ||
        products_open(set, "auto", strcmp(dtype, "bf16") == 0, threads, &products, &error) != 0 ||
        products_take_weight(&products, columns, DIM, w, true, &weight, &error) != 0)
        die(&error);
    int64_t panels = columns / PRODUCTS_PANEL, tasks = rows / PLAN_ROW_BLOCK * panels;
    int64_t scratch_floats = products_linear_scratch(&products, DIM);
    float *scratch = aligned_alloc(64, (size_t)(threads * scratch_floats) * sizeof *scratch);
    double best = 1e9;
    memset(scratch, 0, (size_t)(threads * scratch_floats) * sizeof *scratch);
    for (int run = 0; run < 9; run++) {
        double begin = now_s();
#pragma omp parallel for schedule(dynamic) num_threads(threads)
        for (int64_t t = 0; t < tasks; t++) {
            float *mine = scratch + omp_get_thread_num() * scratch_floats;
            int64_t row = t / panels * PLAN_ROW_BLOCK, mine_at = omp_get_thread_num() * PLAN_ROW_BLOCK * columns;
            struct product_tile tile = {
                .weight = weight,
                .panel = t % panels,
                .x = products_linear_rows(&products, PLAN_ROW_BLOCK, DIM, ELEMENT_F32, x + row * DIM, mine),
                .finish = {.rows = PLAN_ROW_BLOCK, .columns = columns, .y = y + mine_at, .y_stride = columns},
            };
            products_linear_tile(&products, &tile, mine, omp_get_thread_num());
        }
        double took = now_s() - begin;
        best = took < best ? took : best;
    }
    printf("%s, %d threads: products alone %.1f GFLOP/s\n", products.description, threads,
           2.0 * (double)(rows * columns * DIM) / best / 1e9);
    free(x);
    free(y);
    free(scratch);
    products_free_weight(&products, weight);
    products_close(&products);
}

int main(int argc, char **argv)
{
    int depth = argc > 1 ? atoi(argv[1]) : 12;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    const char *dtype = argc > 3 ? argv[3] : "f32";
    int only_batch = 0, only_length = 0;
    struct engine_options options = {
        .device = "cpu", .dtype = dtype, .max_batch_tokens = SEQ_LEN * MAX_BATCH, .max_batch_requests = MAX_BATCH};
    struct engine *engine;
    struct error error;
    if (depth < 1 || depth > MAX_TENSORS / 15 ||
        (argc > 4 && sscanf(argv[4], "%dx%d", &only_batch, &only_length) != 2)) {
        fprintf(stderr, "usage: engine [DEPTH [SECONDS [DTYPE [BATCHxN]]]]\n");
        return 2;
    }
    if (engine_open(&options, &engine, &error) != 0)
        die(&error);
    printf("linformer.Linformer, dim 512, heads 8, k 256, seq_len 4096, depth %d\n", depth);
    time_products(dtype);
    printf("%-22s %6s %6s %10s %10s %12s %10s\n", "", "n", "batch", "ms", "CPU ms", "tokens/s", "GFLOP/s");
    for (int shared = 1; shared >= 0; shared--) {
        struct model *model = load(engine, depth, shared);
        const char *name = shared ? "one_kv_head, share_kv" : "full heads";
        for (int64_t length = 128; length <= SEQ_LEN; length = length == 128 ? 512 : length * 8)
            for (int64_t batch = 1; batch <= MAX_BATCH; batch *= MAX_BATCH)
                if (only_batch == 0 || (only_batch == batch && only_length == length))
                    time_batch(model, name, length, batch, seconds);
        model_close(model);
    }
    engine_close(engine);
    return 0;
}
