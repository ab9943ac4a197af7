/* Tests of sequences that are long enough for engine/cpu/project.c to project their keys and values in chunks. The
 * results are compared with sums in double precision. Queries are zeros, so each output row is to_out applied to the
 * mean of the projected values. */
#include "engine/cpu/vector.h"
#include "engine/engine.h"
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

enum { DIM = 8, K = 5, HEADS = 2, SEQ_LEN = 20000, MAX_ITEMS = 3, MAX_TOKENS = 25000 };

/* The weights from which the expected results are computed: e is (SEQ_LEN, K), to_v and to_out are (DIM, DIM), bias is
 * (DIM). */
struct expected {
    float to_v[DIM * DIM], e[SEQ_LEN * K], to_out[DIM * DIM], bias[DIM];
};

static const struct tensor_shape shapes[] = {
    {"to_q.weight", DIM, DIM}, {"to_k.weight", DIM, DIM},   {"to_v.weight", DIM, DIM}, {"proj_k", SEQ_LEN, K},
    {"proj_v", SEQ_LEN, K},    {"to_out.weight", DIM, DIM}, {"to_out.bias", 0, DIM},
};

static void read_tensor(const struct weights *weights, const char *name, float *to)
{
    weights_to_f32(weights_find(weights, name), to);
}

static void open_model(enum dtype dtype, struct loaded *loaded, struct expected *expected)
{
    struct engine_options options = {.device = {DEVICE_CPU},
                                     .dtype = dtype,
                                     .threads = 2,
                                     .max_batch_tokens = MAX_TOKENS,
                                     .max_batch_requests = MAX_ITEMS};
    char text[256];
    struct model_config config;
    struct error error;
    void *file;
    int length = snprintf(text, sizeof text,
                          "{\"architecture\": \"linformer.LinformerSelfAttention\", \"kwargs\": {\"dim\": %d, "
                          "\"seq_len\": %d, \"k\": %d, \"heads\": %d}}",
                          DIM, SEQ_LEN, K, HEADS);
    struct weights *weights = tensors_random(shapes, sizeof shapes / sizeof *shapes, &file);
    memset((void *)weights_find(weights, "to_q.weight")->data, 0, DIM * DIM * sizeof(float));
    read_tensor(weights, "to_v.weight", expected->to_v);
    read_tensor(weights, "proj_v", expected->e);
    read_tensor(weights, "to_out.weight", expected->to_out);
    read_tensor(weights, "to_out.bias", expected->bias);
    memset(loaded, 0, sizeof *loaded);
    must(engine_open(&options, &loaded->engine, &error), &error);
    must(model_config_parse(text, (size_t)length, "long", &config, &error), &error);
    must(engine_load(loaded->engine, &config, weights, NULL, NULL, &loaded->model, &error), &error);
    model_config_free(&config);
    weights_close(weights);
    free(file);
}

/* row (DIM) = to_out(mean over j of sum over n of E[n, j] to_v(x[n])) */
static void compute_row(const struct expected *expected, const float *x, int64_t length, double *row)
{
    double summed[DIM] = {0}, mean[DIM] = {0};
    for (int64_t n = 0; n < length; n++) {
        double weight = 0;
        for (int j = 0; j < K; j++)
            weight += (double)expected->e[n * K + j] / K;
        for (int c = 0; c < DIM; c++)
            summed[c] += weight * (double)x[n * DIM + c];
    }
    for (int i = 0; i < DIM * DIM; i++)
        mean[i / DIM] += (double)expected->to_v[i] * summed[i % DIM];
    for (int i = 0; i < DIM; i++)
        row[i] = (double)expected->bias[i];
    for (int i = 0; i < DIM * DIM; i++)
        row[i / DIM] += (double)expected->to_out[i] * mean[i % DIM];
}

static void compare(const struct expected *expected, const struct engine_item *item, double tolerance)
{
    double row[DIM], largest = 0;
    compute_row(expected, item->inputs[0].data, item->inputs[0].length, row);
    for (int c = 0; c < DIM; c++)
        largest = fmax(largest, fabs(row[c]));
    for (int64_t i = 0; i < item->inputs[0].length * DIM; i++)
        if (!(fabs((double)item->hidden[i] - row[i % DIM]) <= tolerance * largest))
            fail_msg("%lld rows, value %lld: %g instead of %g", (long long)item->inputs[0].length, (long long)i,
                     (double)item->hidden[i], row[i % DIM]);
}

static void check_batch(struct loaded *loaded, const struct expected *expected, const int64_t *lengths,
                        double tolerance)
{
    struct engine_item items[MAX_ITEMS] = {0};
    struct error error;
    int64_t count = 0;
    for (; count < MAX_ITEMS && lengths[count] > 0; count++) {
        float *x = malloc((size_t)(lengths[count] * DIM) * sizeof *x);
        for (int64_t i = 0; i < lengths[count] * DIM; i++)
            x[i] = random_float();
        items[count].inputs[0].data = x;
        items[count].inputs[0].length = lengths[count];
        items[count].hidden = malloc((size_t)(lengths[count] * DIM) * sizeof *x);
        must(model_check(loaded->model, &items[count], &error), &error);
    }
    must(model_run(loaded->model, 0, items, count, &error), &error);
    for (int64_t i = 0; i < count; i++) {
        compare(expected, &items[i], tolerance);
        free((void *)items[i].inputs[0].data);
        free(items[i].hidden);
    }
}

static void check_dtype(enum dtype dtype, double tolerance)
{
    static const int64_t batches[][MAX_ITEMS] = {
        {8192}, {8193}, {16384}, {SEQ_LEN}, {8195, 100, 8192}, {12345, 1, 9001},
    };
    struct loaded loaded;
    struct expected *expected = malloc(sizeof *expected);
    open_model(dtype, &loaded, expected);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        check_batch(&loaded, expected, batches[i], tolerance);
    unload(&loaded);
    free(expected);
}

static void long_sequences_in_chunks_have_the_expected_sums(void **state)
{
    (void)state;
    check_dtype(DTYPE_F32, 1e-5);
}

static void long_sequences_in_bf16_have_the_expected_sums(void **state)
{
    (void)state;
    if (!cpu_has_bf16())
        skip();
    check_dtype(DTYPE_BF16, 2e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sequences_in_chunks_have_the_expected_sums),
        cmocka_unit_test(long_sequences_in_bf16_have_the_expected_sums),
    };
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20261121;
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
