/* Steps that either cuBLAS or a kernel of the engine computes, whichever is faster (engine/cuda/product_method.h):
 * projections of whole sequences, projections of sequences of several lengths, and GELU after a product. On the shim,
 * artificial times decide. Projections must agree with f32 on the CPU, and GELU with its formula. On the shim, without
 * grouped products, an item's results must have the same bits alone and in a batch. The shim's counters tell which
 * method ran. */
#include "engine/backend.h"
#include "engine/plan/builder.h"
#include "tests/cuda/alone.h"
#include "tests/cuda/faults.h"
#include "tests/cuda/schedules.h"
#include "tests/unit/loaded.h"
#include "tests/unit/tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { WHOLE = 48, MAX_ITEMS = 6, REPEATS = 3, MAX_COLUMNS = 140 };

/* The number of rows of a full item. On the shim it is WHOLE, because the shim's limits are small. On a device it is
 * 2048, because FULL_ROWS has this value there (shape.cu). */
static int64_t full_rows = WHOLE;

/* On the shim, batches with larger results may run without a graph, because RESULTS_BYTES is small. */
#define MAX_RESULT_BYTES 10000

/* Times of the projection kernels in the shim, in milliseconds. A product with the fastest algorithm of cuBLASLt takes
 * 1 ms, and a call with grouped products also takes 1 ms. Other kernels take no time. */
#define SLOW_KERNELS "project=1000"
#define FAST_KERNELS "project=0.45"

static const struct {
    enum dtype dtype;
    double bound; /* maximum error, relative to the largest value */
} dtypes[] = {{DTYPE_F32, 1e-5}, {DTYPE_BF16, 4e-2}, {DTYPE_TF32, 5e-3}, {DTYPE_F16, 5e-3}};

/* The data types that each build tests. The kernels of f16 are those of bf16 with another type, and the kernels of tf32
 * are those of float32 without tensor cores. So one sanitizer tests float32 and the other one bf16. */
#if defined __SANITIZE_THREAD__
enum { FIRST_DTYPE = 0, LAST_DTYPE = 0 };
#elif defined __SANITIZE_ADDRESS__
enum { FIRST_DTYPE = 1, LAST_DTYPE = 1 };
#else
enum { FIRST_DTYPE = 0, LAST_DTYPE = 3 };
#endif

/* The sizes of a model. x (rows, columns) is projected to k rows for keys and values. */
struct sizes {
    int64_t k, columns, groups;
    bool transposed, two, bias; /* `two`: the values have their own projection matrix */
    bool padded;                /* all items have full_rows rows */
    bool linear;                /* a product with a weight precedes the projection. Items of fewer than k rows compute
                                   the two products in another order, in other steps of the plan */
};

struct items {
    int count;
    int64_t lengths[MAX_ITEMS]; /* lengths if a full item has WHOLE rows. See length_of */
};

static int64_t length_of(const struct items *items, int item)
{
    return items->lengths[item] * full_rows / WHOLE;
}

static const struct sizes sizes[] = {
    {8, 64, 1, .two = true},
    {7, 65, 1, .bias = true},
    {33, 40, 1, .transposed = true, .two = true, .bias = true},
    {9, 140, 2, .two = true},
    {5, 24, 8, .transposed = true, .two = true, .bias = true},
    {16, 32, 1, .two = true, .padded = true},
    {3, 8, 1, .two = true}, /* its batches replay a graph */
    {8, 64, 2, .two = true, .bias = true},
    {8, 32, 1, .two = true, .linear = true},
    {8, 8, 1, .two = true}, /* its batches with grouped products do not replay a graph */
};

static const struct items equal = {5, {WHOLE, WHOLE, WHOLE, WHOLE, WHOLE}},
                          mixed = {6, {WHOLE, 5, WHOLE, WHOLE, WHOLE, 30}}, shorter = {3, {20, WHOLE - 1, 20}},
                          ragged = {6, {WHOLE - 1, 30, 46, 46, 5, 40}},
                          both = {6, {WHOLE, WHOLE, WHOLE - 1, 46, 45, 40}};

/* Numbers of launches and calls on the shim. */
struct counted {
    uint64_t several;   /* calls with several products of one size */
    uint64_t grouped;   /* calls with products of several sizes */
    uint64_t projected; /* launches of the engine's own projection kernel */
    uint64_t graphs;
    uint64_t gelus, finished; /* products with GELU as epilogue, and kernels that compute GELU after a product */
};

static struct counted counts_now(void)
{
    return (struct counted){
        .several = count(SEVERAL_PRODUCTS),
        .grouped = count(GROUPED_PRODUCTS),
        .projected = launches_of("project<") + launches_of("project_tensor<"),
        .graphs = count(GRAPH_LAUNCHES),
        .gelus = count(GELU_PRODUCTS),
        .finished = launches_of("finish_product<"),
    };
}

static struct counted counts_since(struct counted before)
{
    struct counted now = counts_now();
    return (struct counted){now.several - before.several,     now.grouped - before.grouped,
                            now.projected - before.projected, now.graphs - before.graphs,
                            now.gelus - before.gelus,         now.finished - before.finished};
}

typedef int build_model(struct plan_builder *builder, const void *how);

static int build_projection(struct plan_builder *builder, const void *how)
{
    const struct sizes *s = how;
    int64_t rows = s->groups * (s->transposed ? s->k : full_rows), columns = s->transposed ? full_rows : s->k;
    int x = plan_input_rows(builder, "x", s->columns, full_rows, PLAN_NONE);
    if (s->padded)
        plan_pad(builder, x, full_rows);
    int w = s->linear ? plan_matrix(builder, s->columns, s->columns, "w") : PLAN_NONE;
    struct plan_projection e = {.weight = plan_matrix(builder, rows, columns, "e"),
                                .bias = s->bias ? plan_matrix(builder, s->groups, s->k, "bias") : PLAN_NONE,
                                .groups = s->groups,
                                .transposed = s->transposed};
    int keys = plan_project_sequence(builder, s->linear ? plan_linear(builder, x, w, PLAN_NONE) : x, e), values = keys;
    if (s->two) {
        e.weight = plan_matrix(builder, rows, columns, "f");
        values = plan_project_sequence(builder, s->linear ? plan_linear(builder, x, w, PLAN_NONE) : x, e);
    }
    return plan_attend(builder, x, keys, values,
                       (struct plan_attention){.heads = 1, .kv_heads = 1, .scale = 1 / sqrtf((float)s->columns)});
}

/* A backend with a model. The algorithms and methods of the model have been chosen. */
struct prepared {
    const struct backend_functions *functions;
    struct backend *backend;
    struct backend_model *model;
    struct plan *plan;
};

static struct prepared prepare(const struct backend_functions *functions, enum dtype dtype, int64_t tuning_ms,
                               build_model *build, const void *how, const struct weights *weights)
{
    struct prepared prepared = {functions, NULL, NULL, NULL};
    struct engine_options options = {
        .dtype = dtype, .threads = 1, .cuda_f32 = CUDA_F32_PLAIN, .cuda_tuning_ms = tuning_ms};
    struct plan_builder builder;
    struct error error;
    must(functions->open(&options, 0, &prepared.backend, &error), &error);
    assert_int_equal(plan_begin(&builder, weights, &error), 0);
    plan_give(&builder, build(&builder, how), PLAN_NONE, PLAN_NONE, false);
    if (plan_finish(&builder, MAX_ITEMS * full_rows, MAX_ITEMS, &prepared.plan) != 0)
        fail_msg("%s", error.message);
    if (functions->prepare(prepared.backend, prepared.plan, false, &prepared.model, &error) != 0)
        fail_msg("%s", error.message);
    return prepared;
}

static void end(struct prepared *prepared)
{
    prepared->functions->unprepare(prepared->model);
    plan_free(prepared->plan);
    prepared->functions->close(prepared->backend);
}

/* Runs items `first` to `first + count - 1` of `items`. x and `hidden` contain the rows of all items. Returns the
 * result of the backend. */
static int run_result(struct prepared *prepared, const struct items *items, int first, int count, int64_t columns,
                      int64_t y_columns, float *x, float *hidden, struct error *error)
{
    struct engine_item batched[MAX_ITEMS];
    struct batch batch;
    memset(batched, 0, sizeof batched);
    for (int i = 0; i < first + count; i++) {
        if (i >= first) {
            batched[i - first].inputs[0].data = x;
            batched[i - first].inputs[0].length = length_of(items, i);
            batched[i - first].hidden = hidden;
        }
        x += length_of(items, i) * columns;
        hidden += length_of(items, i) * y_columns;
    }
    assert_int_equal(padder_open(prepared->plan, &batch, error), 0);
    padder_lay_out(prepared->plan, &batch, batched, count);
    int result = prepared->functions->run(prepared->model, 0, &batch, error);
    padder_free(prepared->plan, &batch);
    return result;
}

/* Like run_result, for a batch that must not fail. */
static void run(struct prepared *prepared, const struct items *items, int first, int count, int64_t columns,
                int64_t y_columns, float *x, float *hidden)
{
    struct error error;
    if (run_result(prepared, items, first, count, columns, y_columns, x, hidden, &error) != 0)
        fail_msg("%s", error.message);
}

static int64_t rows_of(const struct items *items)
{
    int64_t rows = 0;
    for (int i = 0; i < items->count; i++)
        rows += length_of(items, i);
    return rows;
}

static double distance_of(int64_t n, const float *found, const float *expected)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += pow((double)found[i] - (double)expected[i], 2);
        norm += pow((double)expected[i], 2);
    }
    return sqrt(difference / norm);
}

static void compare(double bound, int64_t n, const float *found, const float *expected)
{
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)found[i] - (double)expected[i]) <= bound * largest))
            fail_msg("element %ld is %g; expected %g", (long)i, (double)found[i], (double)expected[i]);
}

/* ---- Projections ---- */

/* The method that computes the projections of a batch. */
enum computed_by { BY_KERNEL, BY_LIBRARY, BY_GROUPS };

/* Returns whether grouped products may compute items of the batch. The items must have many rows together, and several
 * lengths. The rows of the matrices must begin at multiples of 16 bytes. */
static bool can_group(const struct sizes *s, int dtype, const struct items *items)
{
    int64_t bytes = dtypes[dtype].dtype == DTYPE_BF16 || dtypes[dtype].dtype == DTYPE_F16 ? 2 : 4;
    int64_t strides = s->columns | s->columns / s->groups | (s->transposed ? full_rows : s->k);
    return !s->padded && (items == &ragged || items == &both) && strides * bytes % 16 == 0;
}

/* Expects that the batches were computed by the engine's kernel, by cuBLASLt or by grouped products, as `by` states. */
static void check_projected(const struct sizes *s, int dtype, const struct items *items, enum computed_by by,
                            struct counted counted)
{
    bool whole = s->padded || items == &equal, some = whole || items == &mixed || items == &both;
    bool grouped = by == BY_GROUPS && can_group(s, dtype, items), library = by != BY_KERNEL && some;
    if (on_device())
        return;
    assert_int_equal(counted.grouped > 0, grouped);
    bool some_short = s->linear && (items == &mixed || items == &ragged);
    assert_int_equal(counted.projected > 0, some_short || (!grouped && !(library && whole)));
    assert_int_equal(counted.several > 0, library);
    if (rows_of(items) * s->columns * (int64_t)sizeof(float) < MAX_RESULT_BYTES && !s->linear)
        assert_int_equal(counted.graphs > 0, !grouped && (!library || whole));
}

/* Runs a batch several times. The last runs may replay a graph. Then runs each item alone. */
static void check_items(struct prepared *cuda, struct prepared *cpu, int dtype, const struct sizes *s,
                        const struct items *items, enum computed_by by)
{
    int64_t n = rows_of(items) * s->columns, at = 0;
    bool grouped = by == BY_GROUPS && can_group(s, dtype, items);
    double tolerance = grouped ? dtypes[dtype].bound : alone_tolerance(dtypes[dtype].dtype);
    float *x = calloc((size_t)(4 * n), sizeof *x), *expected = x + n, *found = expected + n, *alone = found + n;
    for (int64_t i = 0; i < n; i++)
        x[i] = random_float() * 2;
    run(cpu, items, 0, items->count, s->columns, s->columns, x, expected);
    struct counted before = counts_now();
    for (int i = 0; i < REPEATS; i++) {
        memset(found, 0xff, (size_t)n * sizeof *found);
        run(cuda, items, 0, items->count, s->columns, s->columns, x, found);
        compare(dtypes[dtype].bound, n, found, expected);
    }
    check_projected(s, dtype, items, by, counts_since(before));
    for (int i = 0; i < items->count; i++) {
        run(cuda, items, i, 1, s->columns, s->columns, x, alone);
        double distance = distance_of(length_of(items, i) * s->columns, alone + at, found + at);
        if (!(distance <= tolerance))
            fail_msg("item %d: results alone and in the batch differ by %g", i, distance);
        at += length_of(items, i) * s->columns;
    }
    free(x);
}

static void check_method(const struct backend_functions *functions, int dtype, const struct sizes *s,
                         struct weights *weights, int64_t tuning_ms, enum computed_by by)
{
    const struct items *const batches[] = {by == BY_GROUPS ? &both : &equal, &mixed,
                                           by == BY_GROUPS ? &ragged : &shorter};
    struct prepared cuda = prepare(functions, dtypes[dtype].dtype, tuning_ms, build_projection, s, weights);
    struct prepared cpu = prepare(&backend_cpu, DTYPE_F32, 0, build_projection, s, weights);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        check_items(&cuda, &cpu, dtype, s, batches[i], by);
    end(&cpu);
    end(&cuda);
}

static struct weights *weights_of(const struct sizes *s, void **file)
{
    int64_t rows = s->groups * (s->transposed ? s->k : full_rows), columns = s->transposed ? full_rows : s->k;
    struct tensor_shape shapes[4] = {{"e", rows, columns}};
    int count = 1;
    if (s->two)
        shapes[count++] = (struct tensor_shape){"f", rows, columns};
    if (s->bias)
        shapes[count++] = (struct tensor_shape){"bias", s->groups, s->k};
    if (s->linear)
        shapes[count++] = (struct tensor_shape){"w", s->columns, s->columns};
    random_seed(18);
    return tensors_random(shapes, count, file);
}

static const struct backend_functions *load_cuda(void)
{
    struct error error;
    const struct backend_functions *functions = backend_cuda_load(&error);
    if (!functions)
        fail_msg("%s", error.message);
    return functions;
}

static void test_projection(void **state)
{
    const struct sizes *s = *state;
    const struct backend_functions *functions = load_cuda();
    void *file;
    struct weights *weights = weights_of(s, &file);
    for (int dtype = FIRST_DTYPE; dtype <= LAST_DTYPE; dtype++) {
        print_message("%s\n", dtype_name(dtypes[dtype].dtype));
        setenv("SHIM_KERNEL_MS", SLOW_KERNELS, 1);
        check_method(functions, dtype, s, weights, 1000000000, BY_GROUPS);
        setenv("SHIM_KERNEL_MS", FAST_KERNELS, 1);
        if (!on_device())
            check_method(functions, dtype, s, weights, 1000000000, BY_KERNEL);
        check_method(functions, dtype, s, weights, 0, BY_LIBRARY); /* without time for measurements */
    }
    unsetenv("SHIM_KERNEL_MS");
    weights_close(weights);
    free(file);
}

/* cuBLASLt reports no algorithm when the model is loaded, or refuses the products of a batch. */
static void test_refused_projection(void **state)
{
    (void)state;
    const struct sizes *s = &sizes[2];
    const struct backend_functions *functions = load_cuda();
    void *file;
    struct weights *weights = weights_of(s, &file);
    for (int dtype = FIRST_DTYPE; dtype <= LAST_DTYPE; dtype++) {
        faults_set("algorithm 1 0 801\n");
        check_method(functions, dtype, s, weights, 0, BY_KERNEL);
        faults_set("");
        struct prepared cuda = prepare(functions, dtypes[dtype].dtype, 0, build_projection, s, weights);
        struct prepared cpu = prepare(&backend_cpu, DTYPE_F32, 0, build_projection, s, weights);
        faults_set("product 1 0 801\nalgorithm 1 0 801\n");
        check_items(&cuda, &cpu, dtype, s, &shorter, BY_LIBRARY);
        int64_t n = rows_of(&equal) * s->columns;
        float *x = calloc((size_t)(3 * n), sizeof *x), *expected = x + n, *found = expected + n;
        for (int64_t i = 0; i < n; i++)
            x[i] = random_float() * 2;
        uint64_t plain = launches_of("multiply_tile<");
        run(&cpu, &equal, 0, equal.count, s->columns, s->columns, x, expected);
        run(&cuda, &equal, 0, equal.count, s->columns, s->columns, x, found);
        compare(dtypes[dtype].bound, n, found, expected);
        assert_true(launches_of("multiply_tile<") > plain);
        faults_set("");
        free(x);
        end(&cpu);
        end(&cuda);
    }
    weights_close(weights);
    free(file);
}

/* cuBLAS does not start, or lacks grouped products, when the model is loaded. In a batch, cuBLAS refuses grouped
 * products, lacks memory for them, or fails. */
static void test_refused_groups(void **state)
{
    (void)state;
    const struct sizes *s = &sizes[0];
    const struct backend_functions *functions = load_cuda();
    void *file;
    struct weights *weights = weights_of(s, &file);
    setenv("SHIM_KERNEL_MS", SLOW_KERNELS, 1);
    for (int dtype = 0; dtype <= LAST_DTYPE; dtype++) {
        faults_set(dtype % 2 ? "start 1 0 2\n" : "grouped 1 0 801\n");
        check_method(functions, dtype, s, weights, 1000000000, BY_LIBRARY);
        faults_set("");
        struct prepared cuda = prepare(functions, dtypes[dtype].dtype, 1000000000, build_projection, s, weights);
        struct prepared cpu = prepare(&backend_cpu, DTYPE_F32, 0, build_projection, s, weights);
        check_items(&cuda, &cpu, dtype, s, &ragged, BY_GROUPS);
        int64_t n = rows_of(&ragged) * s->columns;
        struct error error;
        float *x = calloc((size_t)(3 * n), sizeof *x), *expected = x + n, *found = expected + n;
        for (int64_t i = 0; i < n; i++)
            x[i] = random_float() * 2;
        run(&cpu, &ragged, 0, ragged.count, s->columns, s->columns, x, expected);
        faults_set(dtype % 2 ? "grouped 1 0 2\n" : "grouped 1 0 801\n");
        struct counted before = counts_now();
        run(&cuda, &ragged, 0, ragged.count, s->columns, s->columns, x, found);
        compare(dtypes[dtype].bound, n, found, expected);
        struct counted counted = counts_since(before);
        assert_true(counted.grouped == 0 && counted.projected > 0);
        faults_set("grouped 1 0 700\n");
        assert_int_equal(run_result(&cuda, &ragged, 0, ragged.count, s->columns, s->columns, x, found, &error), -1);
        assert_string_equal(error.message, "cuBLAS failed");
        faults_set("");
        run(&cuda, &ragged, 0, ragged.count, s->columns, s->columns, x, found);
        compare(dtypes[dtype].bound, n, found, expected);
        free(x);
        end(&cpu);
        end(&cuda);
    }
    unsetenv("SHIM_KERNEL_MS");
    weights_close(weights);
    free(file);
}

/* ---- GELU ---- */

enum { IN = 40 };

struct gelu {
    int64_t columns;
    bool bias, none; /* `none`: no GELU follows */
};

static int build_gelu(struct plan_builder *builder, const void *how)
{
    const struct gelu *g = how;
    int x = plan_input_rows(builder, "x", IN, full_rows, PLAN_NONE);
    int y = plan_linear(builder, x, plan_matrix(builder, g->columns, IN, "w"),
                        g->bias ? plan_vector(builder, g->columns, "bias") : PLAN_NONE);
    return g->none ? y : plan_activate(builder, y, ACTIVATION_GELU);
}

static double gelu_of(double u, bool exact)
{
    double tanh_form = 0.5 * u * (1 + tanh(sqrt(2 / acos(-1)) * (u + 0.044715 * u * u * u)));
    return exact ? 0.5 * u * erfc(-u * sqrt(0.5)) : tanh_form;
}

/* Returns the mean of found / expected, for numbers at which GELU's exact formula and its tanh approximation differ by
 * a tenth of the value. */
static double ratio_of_tails(int64_t n, const float *before, const float *found, bool exact)
{
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        double u = (double)before[i];
        if (u < -3.2 || u > -2.8)
            continue;
        sum += (double)found[i] / gelu_of(u, exact);
        count++;
    }
    assert_true(count > 50);
    return sum / (double)count;
}

static double bound_of(enum dtype dtype)
{
    int i = 0;
    while (dtypes[i].dtype != dtype)
        i++;
    return dtypes[i].bound;
}

/* Compares GELU after a product with the formula in double precision. `before` is the product in f32 on the CPU, to
 * which the formula is applied. In bf16, the formula is the tanh approximation. Returns the numbers of launches. */
static struct counted check_gelu(const struct backend_functions *functions, enum dtype dtype, const struct gelu *g,
                                 struct weights *weights, float *x, const float *before, float *found)
{
    int64_t n = rows_of(&equal) * g->columns;
    struct prepared cuda = prepare(functions, dtype, 1000000000, build_gelu, g, weights);
    struct counted start = counts_now();
    run(&cuda, &equal, 0, equal.count, IN, g->columns, x, found);
    struct counted counted = counts_since(start);
    bool exact = dtype != DTYPE_BF16;
    float *expected = calloc((size_t)n, sizeof *expected);
    for (int64_t i = 0; i < n; i++)
        expected[i] = (float)gelu_of((double)before[i], exact);
    compare(bound_of(dtype), n, found, expected);
    free(expected);
    double ratio = ratio_of_tails(n, before, found, exact);
    print_message("%s: %.3f of the expected values\n", dtype_name(dtype), ratio);
    assert_true(fabs(ratio - 1) < 0.03);
    end(&cuda);
    return counted;
}

static void test_gelu(void **state)
{
    const struct gelu *g = *state;
    const struct gelu without = {g->columns, g->bias, true};
    const struct backend_functions *functions = load_cuda();
    const struct tensor_shape shapes[] = {{"w", g->columns, IN}, {"bias", 0, g->columns}};
    void *file;
    random_seed(5);
    struct weights *weights = tensors_random(shapes, g->bias ? 2 : 1, &file);
    int64_t n = rows_of(&equal) * g->columns, inputs = rows_of(&equal) * IN;
    float *x = calloc((size_t)(inputs + 3 * n), sizeof *x), *before = x + inputs, *fused = before + n,
          *apart = fused + n;
    for (int64_t i = 0; i < inputs; i++)
        x[i] = random_float() * 4;
    struct prepared cpu = prepare(&backend_cpu, DTYPE_F32, 0, build_gelu, &without, weights);
    run(&cpu, &equal, 0, equal.count, IN, g->columns, x, before);
    end(&cpu);
    struct counted counted = check_gelu(functions, DTYPE_BF16, g, weights, x, before, fused);
    assert_true(on_device() || (counted.gelus == 1 && counted.finished == 0));
    setenv("SHIM_GELU_MS", "100", 1); /* makes an epilogue with GELU slow */
    counted = check_gelu(functions, DTYPE_BF16, g, weights, x, before, apart);
    assert_true(on_device() || (counted.gelus == 0 && counted.finished == 1));
    assert_true(distance_of(n, apart, fused) < 0x1p-8); /* without the epilogue, the result is rounded once more */
    for (int i = FIRST_DTYPE; i <= LAST_DTYPE; i++)
        if (dtypes[i].dtype != DTYPE_BF16)
            check_gelu(functions, dtypes[i].dtype, g, weights, x, before, apart);
    unsetenv("SHIM_GELU_MS");
    weights_close(weights);
    free(file);
    free(x);
}

/* ---- The trace ---- */

static int lines_of(const char *path, const char *begin)
{
    char line[256];
    int count = 0;
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s was not written", path);
    while (fgets(line, sizeof line, file))
        count += strncmp(line, begin, strlen(begin)) == 0;
    fclose(file);
    return count;
}

/* Several products of one launch are one line of the trace, which contains their number. cuBLASLt uses column-major
 * order. For cuBLASLt, the product of an item therefore has `columns` rows and k columns. */
static void test_trace(void **state)
{
    (void)state;
    const struct sizes *s = &sizes[0];
    const struct backend_functions *functions = load_cuda();
    char path[] = "/tmp/linformerd_trace.XXXXXX", expected[64];
    void *file;
    close(mkstemp(path));
    struct weights *weights = weights_of(s, &file);
    struct prepared cuda = prepare(functions, DTYPE_F32, 0, build_projection, s, weights);
    int64_t n = rows_of(&equal) * s->columns;
    float *x = calloc((size_t)(2 * n), sizeof *x);
    setenv("SHIM_TRACE", path, 1);
    run(&cuda, &equal, 0, equal.count, s->columns, s->columns, x, x + n);
    unsetenv("SHIM_TRACE");
    snprintf(expected, sizeof expected, "product\t%d %d %d %d\t4\t4\t", (int)s->columns, (int)s->k, WHOLE, equal.count);
    assert_int_equal(lines_of(path, expected), 2);
    assert_int_equal(lines_of(path, "product"), 2);
    unlink(path);
    free(x);
    end(&cuda);
    weights_close(weights);
    free(file);
}

static int run_methods(void)
{
    static const struct gelu gelus[] = {{64, .bias = true}, {50, .bias = true}, {64, .bias = false}};
    enum { N_SIZES = sizeof sizes / sizeof *sizes, N_GELUS = sizeof gelus / sizeof *gelus };
    full_rows = on_device() ? 2048 : WHOLE;
    struct CMUnitTest tests[N_SIZES + N_GELUS + 3];
    static char names[N_SIZES + N_GELUS][64];
    for (int i = 0; i < N_SIZES; i++) {
        snprintf(names[i], sizeof names[i], "k %d columns %d groups %d%s%s", (int)sizes[i].k, (int)sizes[i].columns,
                 (int)sizes[i].groups, sizes[i].padded ? ", padded" : "", sizes[i].linear ? ", linear" : "");
        tests[i] = (struct CMUnitTest){names[i], test_projection, NULL, NULL, (void *)&sizes[i]};
    }
    for (int i = 0; i < N_GELUS; i++) {
        snprintf(names[N_SIZES + i], sizeof names[i], "gelu of %d columns%s", (int)gelus[i].columns,
                 gelus[i].bias ? " with a bias" : "");
        tests[N_SIZES + i] =
            (struct CMUnitTest){names[N_SIZES + i], test_gelu, NULL, NULL, (void *)(uintptr_t)&gelus[i]};
    }
    tests[N_SIZES + N_GELUS] = (struct CMUnitTest){"refused projections", test_refused_projection, NULL, NULL, NULL};
    tests[N_SIZES + N_GELUS + 1] = (struct CMUnitTest){"refused groups", test_refused_groups, NULL, NULL, NULL};
    tests[N_SIZES + N_GELUS + 2] = (struct CMUnitTest){"the trace", test_trace, NULL, NULL, NULL};
    /* The last three tests need the shim. */
    return _cmocka_run_group_tests("product methods", tests, N_SIZES + N_GELUS + (on_device() ? 0 : 3), NULL, NULL);
}

int main(void)
{
    faults_begin();
    int failed = run_schedules(run_methods);
    faults_end();
    return failed;
}
