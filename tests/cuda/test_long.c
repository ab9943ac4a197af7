/* Sequences of hundreds of rows, for which kernels have several tiles and parts. Each dtype on the CUDA backend is
 * compared with f32 on the CPU. Items alone are compared with the same items in a batch. */
#include "engine/backend.h"
#include "engine/plan/builder.h"
#include "tests/cuda/alone.h"
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

#include <cmocka.h>

#define LONGEST 600
#define ITEMS 4
#define ROWS 1024
#define MAX_D 512

/* The sizes of a model. x (rows, d) is projected to k rows for keys and values. The heads of x attend to them. */
struct sizes {
    int64_t d, k, heads, kv_heads, groups;
    bool transposed, causal;
    bool all_keys; /* the keys are the sequence's own rows, without a projection */
    bool two;      /* true if the values have their own projection matrix */
};

static const struct sizes sizes[] = {
    {128, 136, 2, 1, 1, .two = true},
    {128, 130, 2, 2, 2, .transposed = true},
    {80, 64, 2, 2, 1, .transposed = true, .causal = true, .two = true},
    {70, 7, 2, 1, .groups = 1},
    {256, 72, 2, 2, .groups = 1},
    {64, 1, 1, 1, 1, .causal = true, .all_keys = true},
    {512, 1, 2, 2, 1, .all_keys = true},
};
static const int64_t lengths[ITEMS] = {LONGEST, 1, 257, 163};
static const enum pooling poolings[ITEMS] = {POOLING_MEAN, POOLING_LAST, POOLING_MAX, POOLING_MEAN};

/* With a sanitizer, fewer cases are enough. The kernels of f16 are those of bf16 with another type. The kernels of tf32
 * are those of float32 without tensor cores, which other programs run. The longest item has the same tiles alone and in
 * the batch, so it is not compared. */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { N_DTYPES = 2, FIRST_ALONE = 1 };
#else
enum { N_DTYPES = 4, FIRST_ALONE = 0 };
#endif
static const struct {
    enum dtype dtype;
    double bound; /* maximum error, relative to the largest value */
} dtypes[] = {{DTYPE_F32, 1e-5}, {DTYPE_BF16, 4e-2}, {DTYPE_TF32, 8e-3}, {DTYPE_F16, 5e-3}};

static int projection_matrix(struct plan_builder *builder, const struct sizes *s, const char *name)
{
    return s->transposed ? plan_matrix(builder, s->groups * s->k, LONGEST, name)
                         : plan_matrix(builder, s->groups * LONGEST, s->k, name);
}

static int build(struct plan_builder *builder, const struct sizes *s)
{
    int64_t kv_columns = s->d / s->heads * s->kv_heads;
    int x = plan_input_rows(builder, "x", s->d, LONGEST, PLAN_NONE);
    int kv = s->kv_heads == s->heads
                 ? x
                 : plan_linear(builder, x, plan_matrix(builder, kv_columns, s->d, "narrow"), PLAN_NONE);
    struct plan_projection projection = {.weight = projection_matrix(builder, s, "e"),
                                         .bias = PLAN_NONE,
                                         .groups = s->groups,
                                         .transposed = s->transposed};
    int keys = s->all_keys ? kv : plan_project_sequence(builder, kv, projection), values = keys;
    if (s->two) {
        projection.weight = projection_matrix(builder, s, "f");
        values = plan_project_sequence(builder, kv, projection);
    }
    return plan_attend(builder, x, keys, values,
                       (struct plan_attention){.heads = s->heads,
                                               .kv_heads = s->kv_heads,
                                               .scale = 1 / sqrtf((float)(s->d / s->heads)),
                                               .causal = s->causal});
}

/* Runs `count` items through the model, beginning with item `first`. x contains the inputs of these items. Writes the
 * last hidden states (rows, d) to `hidden`, followed by the pooled vectors (count, d). */
static void run(const struct backend_functions *functions, enum dtype dtype, const struct sizes *s,
                const struct weights *weights, int first, int count, const float *x, float *hidden)
{
    struct engine_options options = {.dtype = dtype, .threads = 1};
    struct backend *backend;
    struct backend_model *model;
    struct plan_builder builder;
    struct plan *plan;
    struct batch batch;
    struct error error;
    struct engine_item items[ITEMS];
    float *pooled = hidden;
    must(functions->open(&options, 0, &backend, &error), &error);
    assert_int_equal(plan_begin(&builder, weights, &error), 0);
    plan_give(&builder, build(&builder, s), PLAN_NONE, PLAN_NONE, false);
    if (plan_finish(&builder, ROWS, ITEMS, &plan) != 0)
        fail_msg("%s", error.message);
    if (functions->prepare(backend, plan, false, &model, &error) != 0)
        fail_msg("%s", error.message);
    memset(items, 0, sizeof items);
    for (int i = 0; i < count; i++)
        pooled += lengths[first + i] * s->d;
    for (int i = 0; i < count; i++) {
        int64_t length = lengths[first + i];
        items[i].pooled = pooled + i * s->d;
        items[i].pooling = poolings[first + i];
        items[i].inputs[0].data = x;
        items[i].inputs[0].length = length;
        items[i].hidden = hidden;
        x += length * s->d;
        hidden += length * s->d;
    }
    assert_int_equal(padder_open(plan, &batch, &error), 0);
    padder_lay_out(plan, &batch, items, count);
    if (functions->run(model, 0, &batch, &error) != 0)
        fail_msg("%s", error.message);
    padder_free(plan, &batch);
    functions->unprepare(model);
    plan_free(plan);
    functions->close(backend);
}

static void compare(enum dtype dtype, double bound, int64_t n, const float *found, const float *expected)
{
    double largest = 0, worst = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    for (int64_t i = 0; i < n; i++) {
        double error = fabs((double)found[i] - (double)expected[i]) / largest;
        worst = error <= worst ? worst : error; /* a NaN also becomes the worst error */
    }
    print_message("%s: %.2g of the largest value\n", dtype_name(dtype), worst);
    assert_true(worst <= bound);
}

/* Compares results alone with results in the batch. The items are the longest item, and an item that is so short that
 * its projection has other tiles than in the batch. */
static void compare_alone(const struct backend_functions *cuda, enum dtype dtype, const struct sizes *s,
                          const struct weights *weights, const float *x, const float *together)
{
    static float alone[(LONGEST + 1) * MAX_D];
    for (int i = 0; i < FIRST_ALONE; i++) {
        x += lengths[i] * s->d;
        together += lengths[i] * s->d;
    }
    for (int i = FIRST_ALONE; i < 2; i++) {
        double difference = 0, norm = 0;
        run(cuda, dtype, s, weights, i, 1, x, alone);
        for (int64_t j = 0; j < lengths[i] * s->d; j++) {
            difference += pow((double)alone[j] - (double)together[j], 2);
            norm += pow((double)together[j], 2);
        }
        print_message("%s: alone and in the batch, results differ by %.2g\n", dtype_name(dtype),
                      sqrt(difference / norm));
        assert_true(sqrt(difference / norm) <= alone_tolerance(dtype));
        x += lengths[i] * s->d;
        together += lengths[i] * s->d;
    }
}

static void test_sizes(void **state)
{
    const struct sizes *s = *state;
    int64_t rows = 0, e_rows = s->groups * (s->transposed ? s->k : LONGEST);
    struct tensor_shape shapes[3] = {{"e", e_rows, s->transposed ? LONGEST : s->k}};
    size_t n_shapes = 1;
    if (s->kv_heads < s->heads)
        shapes[n_shapes++] = (struct tensor_shape){"narrow", s->d / s->heads * s->kv_heads, s->d};
    if (s->two)
        shapes[n_shapes++] = (struct tensor_shape){"f", e_rows, shapes[0].columns};
    struct error error;
    void *file;
    const struct backend_functions *cuda = backend_cuda_load(&error);
    if (!cuda)
        fail_msg("%s", error.message);
    random_seed(5);
    struct weights *weights = tensors_random(shapes, n_shapes, &file);
    for (int i = 0; i < ITEMS; i++)
        rows += lengths[i];
    int64_t n = (rows + ITEMS) * s->d;
    float *x = calloc((size_t)(3 * n), sizeof *x), *expected = x + n, *found = expected + n;
    for (int64_t i = 0; i < rows * s->d; i++)
        x[i] = random_float() * 2;
    run(&backend_cpu, DTYPE_F32, s, weights, 0, ITEMS, x, expected);
    for (int i = 0; i < N_DTYPES; i++) {
        run(cuda, dtypes[i].dtype, s, weights, 0, ITEMS, x, found);
        compare(dtypes[i].dtype, dtypes[i].bound, rows * s->d, found, expected);
        compare(dtypes[i].dtype, dtypes[i].bound, ITEMS * s->d, found + rows * s->d, expected + rows * s->d);
        compare_alone(cuda, dtypes[i].dtype, s, weights, x, found);
    }
    free(x);
    weights_close(weights);
    free(file);
}

static int run_long(void)
{
    struct CMUnitTest tests[sizeof sizes / sizeof *sizes];
    static char names[sizeof sizes / sizeof *sizes][64];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(names[i], sizeof names[i], "d %d k %d heads %d of %d%s", (int)sizes[i].d, (int)sizes[i].k,
                 (int)sizes[i].kv_heads, (int)sizes[i].heads, sizes[i].causal ? ", causal" : "");
        tests[i] = (struct CMUnitTest){names[i], test_sizes, NULL, NULL, (void *)&sizes[i]};
    }
    return _cmocka_run_group_tests("long sequences", tests, sizeof sizes / sizeof *sizes, NULL, NULL);
}

int main(void)
{
    return run_schedules(run_long);
}
