/* The arithmetic of each instruction set that this processor has, against the C library in double precision. */
#include "engine/cpu/vector.h"
#include "tests/unit/tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define POINTS 200001

/* The functions of a set; skips the test where the processor lacks it. */
static const struct vector_functions *functions(void **state)
{
    enum instruction_set set;
    struct error error;
    if (instruction_set_choose(*state, &set, &error) != 0 || !vector_functions_of(set))
        skip();
    return vector_functions_of(set);
}

static void gelu_is_exact(void **state)
{
    const struct vector_functions *vector = functions(state);
    float *x = malloc(POINTS * sizeof *x), *y = malloc(POINTS * sizeof *y);
    for (int i = 0; i < POINTS; i++)
        x[i] = ((float)i / (POINTS - 1) * 2 - 1) * 10;
    vector->activate(POINTS, ACTIVATION_GELU, x, y);
    double worst = 0;
    for (int i = 0; i < POINTS; i++) {
        double expected = 0.5 * (double)x[i] * (1 + erf((double)x[i] / sqrt(2)));
        worst = fmax(worst, fabs((double)y[i] - expected) / fmax(1, fabs((double)x[i])));
    }
    float far[3] = {-10, -1e30f, 1e30f};
    vector->activate(3, ACTIVATION_GELU, far, far);
    assert_true(far[0] == 0 && far[1] == 0 && far[2] == 1e30f);
    print_message("gelu: largest error %.2g\n", worst);
    assert_true(worst <= 3e-7);
    free(x);
    free(y);
}

/* Softmax of two numbers is a way to see exp: e / (1 + e). Relative error of the smaller probability. */
static void softmax_has_exact_exponentials(void **state)
{
    const struct vector_functions *vector = functions(state);
    double worst = 0;
    for (int i = 0; i < POINTS; i++) {
        float x[2] = {0, -87.0f * (float)i / (POINTS - 1)};
        double e = exp((double)x[1]);
        vector->softmax(2, 1, x);
        worst = fmax(worst, fabs((double)x[1] / (e / (1 + e)) - 1));
    }
    print_message("softmax: largest relative error %.2g\n", worst);
    assert_true(worst <= 5e-7);
}

static void softmax_of_extremes(void **state)
{
    const struct vector_functions *vector = functions(state);
    float far[3] = {1e30f, -1e30f, -INFINITY};
    vector->softmax(3, 1, far);
    assert_true(far[0] == 1 && far[1] == 0 && far[2] == 0);
    for (int n = 1; n < 40; n++) {
        float x[40];
        for (int at = 0; at < n; at++) {
            for (int i = 0; i < n; i++)
                x[i] = (float)i;
            x[at] = NAN;
            vector->softmax(n, 1, x);
            for (int i = 0; i < n; i++)
                assert_true(isnan(x[i]));
        }
    }
}

static void softmax_sums_to_one(void **state)
{
    const struct vector_functions *vector = functions(state);
    for (int n = 1; n < 300; n++) {
        float x[300];
        double sum = 0;
        for (int i = 0; i < n; i++)
            x[i] = random_float() * 20;
        vector->softmax(n, 0.5f, x);
        for (int i = 0; i < n; i++)
            sum += (double)x[i];
        assert_true(fabs(sum - 1) < 2e-6);
    }
}

/* A row's result may not depend on its place in memory nor on the rows beside it. */
static void rows_stand_alone(void **state)
{
    const struct vector_functions *vector = functions(state);
    enum { K = 37, DIM = 20, ROWS = 11 };
    float keys[K * DIM], values[K * DIM], queries[ROWS * DIM], out[ROWS * DIM], alone[DIM + 1];
    float *packed = malloc((size_t)vector_packed_keys(K, DIM, DIM) * sizeof *packed);
    float *scratch = malloc((size_t)vector_attend_scratch(DIM, DIM) * sizeof *scratch);
    for (int i = 0; i < K * DIM; i++) {
        keys[i] = random_float();
        values[i] = random_float();
    }
    for (int i = 0; i < ROWS * DIM; i++)
        queries[i] = random_float();
    struct vector_keys head = {K, DIM, DIM, keys, DIM, values, DIM};
    vector->pack_keys(&head, packed);
    struct vector_attend attend = {.rows = ROWS,
                                   .k = K,
                                   .dim_head = DIM,
                                   .dim_value = DIM,
                                   .queries = queries,
                                   .query_stride = DIM,
                                   .packed = packed,
                                   .scale = 0.3f,
                                   .out = out,
                                   .out_stride = DIM,
                                   .scratch = scratch};
    vector->attend(&attend);
    for (int r = 0; r < ROWS; r++) {
        attend.rows = 1;
        attend.queries = queries + r * DIM;
        attend.out = alone + r % 2;
        vector->attend(&attend);
        assert_memory_equal(alone + r % 2, out + r * DIM, DIM * sizeof(float));
    }
    free(packed);
    free(scratch);
}

#define EACH(test)                             \
    {#test " "                                 \
           "baseline",                         \
     test, NULL, NULL, (void *)"baseline"},    \
        {#test " "                             \
               "avx2",                         \
         test, NULL, NULL, (void *)"avx2"},    \
    {                                          \
#test " "                              \
              "avx512",                        \
            test, NULL, NULL, (void *)"avx512" \
    }

int main(void)
{
    random_seed(7);
    const struct CMUnitTest tests[] = {
        EACH(gelu_is_exact),       EACH(softmax_has_exact_exponentials),
        EACH(softmax_of_extremes), EACH(softmax_sums_to_one),
        EACH(rows_stand_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
