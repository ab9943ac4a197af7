/* engine: the speed of the CPU engine with linformer.Linformer, dim 512, heads 8, k 256, seq_len 4096.
 *
 *     engine [DEPTH [SECONDS [DTYPE [BATCHxN]]]]
 *
 * DEPTH is 12 by default. Each line takes at least SECONDS (1). DTYPE is f32 or bf16. BATCHxN chooses one shape.
 *
 * GFLOP/s are the FLOPs of `--explain` for the whole forward pass, divided by its time. The program alternates between
 * the forward pass and a run of only its plan's matrix products (plan_products.h). The last column is the first rate
 * divided by the second one. All values are medians. */
#include "engine/engine.h"
#include "engine/model.h"
#include "tests/bench/dtypes.h"
#include "tests/bench/plan_products.h"
#include "tests/unit/tensors.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DIM 512
#define K 256
#define SEQ_LEN 4096
#define MAX_TENSORS 1024
#define NAME_LENGTH 64
#define MAX_BATCH 8
#define MAX_RUNS 1000

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* CPU time of all threads of this process. Other programs disturb this time less than the elapsed time. */
static double cpu_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

struct shapes {
    struct tensor_shape all[MAX_TENSORS];
    char names[MAX_TENSORS][NAME_LENGTH];
    size_t count;
};

static void add(struct shapes *shapes, int layer, const char *name, int64_t rows, int64_t columns)
{
    snprintf(shapes->names[shapes->count], NAME_LENGTH, "net.layers.%d.%s", layer, name);
    shapes->all[shapes->count] = (struct tensor_shape){shapes->names[shapes->count], rows, columns};
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

/* The FLOPs of one item, as --explain counts them. */
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

/* The measurements for one line. Runs of the model and of its products alternate. `share` is the rate of the model
 * divided by the rate of its products. The other values are seconds. */
struct runs {
    double model[MAX_RUNS], cpu[MAX_RUNS], products[MAX_RUNS], share[MAX_RUNS];
    int count;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the median. Sorts the values. */
static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Runs the model and its products in turns. `flops` are those of the model. */
static void run_in_turns(struct model *model, const struct engine_item *items, int64_t batch, double flops,
                         const struct plan_products *products, double seconds, struct runs *runs)
{
    struct error error;
    double start = now_s();
    for (int warm = 1; runs->count < 3 || (now_s() - start < seconds && runs->count < MAX_RUNS); warm = 0) {
        double begin = now_s(), begin_cpu = cpu_s();
        if (model_run(model, 0, items, batch, &error) != 0)
            die(&error);
        double between = now_s(), end_cpu = cpu_s();
        plan_products_run(products);
        double end = now_s();
        if (warm)
            continue;
        runs->model[runs->count] = between - begin;
        runs->cpu[runs->count] = end_cpu - begin_cpu;
        runs->products[runs->count] = end - between;
        runs->share[runs->count++] = flops / (between - begin) / (products->flops / (end - between));
    }
}

static void time_batch(struct model *model, const char *name, enum dtype dtype, int64_t length, int64_t batch,
                       double seconds)
{
    static struct runs runs;
    struct engine_item items[MAX_BATCH];
    struct plan_products products;
    struct error error;
    double flops = explained_flops(model, length) * (double)batch;
    float *rows = malloc((size_t)(length * DIM) * sizeof *rows), pooled[DIM];
    for (int64_t i = 0; i < length * DIM; i++)
        rows[i] = random_float();
    memset(items, 0, sizeof items);
    for (int64_t i = 0; i < batch; i++) {
        items[i].inputs[0].data = rows;
        items[i].inputs[0].length = length;
        items[i].pooled = pooled;
    }
    if (plan_products_open(&products, model_plan(model), dtype == DTYPE_BF16, length, batch, &error) != 0)
        die(&error);
    runs.count = 0;
    run_in_turns(model, items, batch, flops, &products, seconds, &runs);
    double took = median(runs.model, runs.count);
    printf("%-22s %6lld %6lld %10.2f %10.2f %10.0f %9.1f %9.1f %6.1f %%\n", name, (long long)length, (long long)batch,
           took * 1e3, median(runs.cpu, runs.count) * 1e3, (double)(length * batch) / took, flops / took / 1e9,
           products.flops / median(runs.products, runs.count) / 1e9, 100 * median(runs.share, runs.count));
    fflush(stdout);
    plan_products_close(&products);
    free(rows);
}

int main(int argc, char **argv)
{
    int depth = argc > 1 ? atoi(argv[1]) : 12;
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    int dtype = argc > 3 ? dtype_from_name(argv[3]) : DTYPE_F32;
    int only_batch = 0, only_length = 0;
    struct engine *engine;
    struct error error;
    if (dtype < 0 || depth < 1 || depth > MAX_TENSORS / 15 ||
        (argc > 4 && sscanf(argv[4], "%dx%d", &only_batch, &only_length) != 2)) {
        fprintf(stderr, "usage: engine [DEPTH [SECONDS [DTYPE [BATCHxN]]]]\n");
        return 2;
    }
    struct engine_options options = {.device = {DEVICE_CPU},
                                     .dtype = (enum dtype)dtype,
                                     .max_batch_tokens = SEQ_LEN * MAX_BATCH,
                                     .max_batch_requests = MAX_BATCH};
    if (engine_open(&options, &engine, &error) != 0)
        die(&error);
    printf("linformer.Linformer, dim 512, heads 8, k 256, seq_len 4096, depth %d\n%s\n", depth, engine_kernels(engine));
    printf("%-22s %6s %6s %10s %10s %10s %9s %9s %8s\n", "", "n", "batch", "ms", "CPU ms", "tokens/s", "GFLOP/s",
           "products", "of it");
    for (int shared = 1; shared >= 0; shared--) {
        struct model *model = load(engine, depth, shared);
        const char *name = shared ? "one_kv_head, share_kv" : "full heads";
        for (int64_t length = 128; length <= SEQ_LEN; length = length == 128 ? 512 : length * 8)
            for (int64_t batch = 1; batch <= MAX_BATCH; batch *= MAX_BATCH)
                if (only_batch == 0 || (only_batch == batch && only_length == length))
                    time_batch(model, name, options.dtype, length, batch, seconds);
        model_close(model);
    }
    engine_close(engine);
    return 0;
}
