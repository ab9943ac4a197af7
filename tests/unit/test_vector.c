/* Tests of the vector functions for each instruction set of this processor. The results are compared with the C library
 * in double precision. */
#include "engine/cpu/vector.h"
#include "tests/unit/scalar.h"
#include "tests/unit/tensors.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define POINTS 200001

/* Distance of the tested floats in the order of their bits. The environment variable VECTOR_STRIDE replaces it. 1 tests
 * all floats. */
#define STRIDE 997

/* An instruction set for which the functions are compiled. */
struct variant {
    enum instruction_set set;
    bool bf16; /* true: the variant that also uses AVX512_BF16 */
};

static bool multiplies_bf16(void **state)
{
    const struct variant *variant = *state;
    return variant->bf16;
}

/* Returns the functions of the test's variant. If the processor does not support the instruction set, the test is
 * skipped. */
static const struct vector_functions *functions(void **state)
{
    const struct variant *variant = *state;
    enum instruction_set set;
    struct error error;
    if (instruction_set_choose(variant->set, &set, &error) != 0 || (variant->bf16 && !cpu_has_bf16()) ||
        !vector_functions_of(set))
        skip();
    return variant->bf16 ? vector_functions_of_bf16() : vector_functions_of(set);
}

/* "auto" chooses the best set of the processor. The processor supports this set and the sets behind it in the enum, but
 * no set before it. */
static void only_supported_instruction_sets_are_accepted(void **state)
{
    (void)state;
    enum instruction_set best, set;
    struct error error;
    assert_int_equal(instruction_set_choose(SET_AUTO, &best, &error), 0);
    assert_true(best > SET_AUTO && best < SET_COUNT);
    for (int wanted = SET_AVX512; wanted < SET_COUNT; wanted++) {
        int result = instruction_set_choose((enum instruction_set)wanted, &set, &error);
        assert_int_equal(result, wanted < (int)best ? -1 : 0);
        if (result == 0)
            assert_int_equal(set, wanted);
        else
            assert_non_null(strstr(error.message, "its best kernels are"));
    }
}

static uint64_t stride(void)
{
    const char *asked = getenv("VECTOR_STRIDE");
    return asked && atoll(asked) > 0 ? (uint64_t)atoll(asked) : STRIDE;
}

#define RUN 4096

/* Writes the next floats in the order of their bits, including NaNs and infinities. Returns their number, which is 0 at
 * the end. */
static int next_floats(uint64_t *bits, float *x)
{
    int count = 0;
    for (; count < RUN && *bits < (uint64_t)1 << 32; *bits += stride()) {
        uint32_t word = (uint32_t)*bits;
        memcpy(&x[count++], &word, sizeof word);
    }
    return count;
}

/* Returns the larger error, or NaN if an error is NaN, so that `worst <= bound` fails. fmax would ignore NaN. */
static double worse(double worst, double error)
{
    return isnan(worst) || error <= worst ? worst : error;
}

static void gelu_is_near(void **state)
{
    const struct vector_functions *vector = functions(state);
    static float x[RUN], y[RUN];
    double worst = 0;
    uint64_t bits = 0;
    for (int count; (count = next_floats(&bits, x)) > 0;) {
        vector->activate(count, (struct plan_activation){.kind = ACTIVATION_GELU}, x, y);
        for (int i = 0; i < count; i++) {
            if (isnan(x[i]) || x[i] == -INFINITY) /* -infinity times 0 is NaN */
                assert_true(isnan(y[i]));
            else if (x[i] == INFINITY)
                assert_true(y[i] == INFINITY);
            else if (fabsf(x[i]) > 1e-37f) {
                double expected = 0.5 * (double)x[i] * (1 + erf((double)x[i] * M_SQRT1_2));
                worst = worse(worst, fabs(((double)y[i] - expected) / (double)x[i]));
            }
        }
    }
    float far[3] = {-10, -1e30f, 1e30f};
    vector->activate(3, (struct plan_activation){.kind = ACTIVATION_GELU}, far, far);
    assert_true(far[0] == 0 && far[1] == 0 && far[2] == 1e30f);
    print_message("gelu: largest error %.3g |x|\n", worst);
    assert_true(worst <= (multiplies_bf16(state) ? 1.1e-4 : 4e-7));
}

static void exp_is_within_two_ulp(void **state)
{
    const struct vector_functions *vector = functions(state);
    static float x[RUN], y[RUN], zero[RUN];
    double worst = 0;
    uint64_t bits = 0;
    for (int count; (count = next_floats(&bits, x)) > 0;) {
        vector->exp_rows(1, count, x, count, zero, y);
        for (int i = 0; i < count; i++) {
            double expected = exp((double)x[i]);
            int exponent;
            if (isnan(x[i]))
                assert_true(isnan(y[i]));
            else if (x[i] < -87.3366f)
                assert_true(y[i] == 0);
            else if (x[i] > 88.7229f)
                assert_true(y[i] == INFINITY);
            else if (x[i] >= -87.3365f && x[i] <= 88.7228f) {
                frexp(expected, &exponent);
                worst = worse(worst, fabs((double)y[i] - expected) / ldexp(1, exponent - 24));
            }
        }
    }
    print_message("exp: largest error %.3g ulp\n", worst);
    assert_true(worst <= 2);
    const float edges[] = {0, -0.0f, -87.3366f, 88.7229f, INFINITY, -INFINITY, NAN};
    float of[7];
    vector->exp_rows(1, 7, edges, 7, zero, of);
    assert_true(of[0] == 1 && of[1] == 1 && of[2] == 0 && of[3] == INFINITY && of[4] == INFINITY && of[5] == 0);
    assert_true(isnan(of[6]));
}

/* The function `weigh` computes the exponentials of attention from its scores. */
static void weights_are_near_exponentials(void **state)
{
    const struct vector_functions *vector = functions(state);
    static float x[RUN], y[RUN];
    double worst = 0;
    uint64_t bits = 1u << 31; /* the bits of -0 */
    for (int count; (count = next_floats(&bits, x)) > 0;) {
        vector->weigh(count, x, y);
        for (int i = 0; i < count; i++) {
            if (isnan(x[i]))
                assert_true(isnan(y[i]));
            else if (x[i] < -87.3366f)
                assert_true(y[i] >= 0 && y[i] <= (multiplies_bf16(state) ? FLT_MIN : 0));
            else if (x[i] >= -87.3365f)
                worst = worse(worst, fabs((double)y[i] / exp((double)x[i]) - 1));
        }
    }
    print_message("weights of scores: largest relative error %.3g\n", worst);
    assert_true(worst <= (multiplies_bf16(state) ? 6.5e-6 : 2 * FLT_EPSILON));
    const float edges[] = {0, -0.0f, -104, -1e30f, -INFINITY, NAN};
    float of[6];
    vector->weigh(6, edges, of);
    for (int i = 0; i < 2; i++)
        assert_true(fabsf(of[i] - 1) <= (multiplies_bf16(state) ? 1e-6f : 0));
    assert_true(of[2] == 0 && of[3] == 0 && of[4] == 0 && isnan(of[5]));
}

/* Positions are up to three million, and frequencies are between -5 and 5. Angles are rounded to float. The sines and
 * cosines of the rounded angles may have an error of 1.2e-7. */
static void sinusoids_keep_their_digits(void **state)
{
    const struct vector_functions *vector = functions(state);
    enum { HALF = 37 };
    float frequencies[HALF], x[2 * HALF], y[2 * HALF];
    double worst = 0;
    for (int i = 0; i < HALF; i++)
        frequencies[i] = i == 0 ? 1 : random_float() * (i % 2 ? 1 : 5);
    for (int i = 0; i < 2 * HALF; i++)
        x[i] = 0;
    for (int64_t position = 0; position < 3000000; position += position < 100 ? 1 : 1 + position / 17) {
        vector->add_sinusoids(HALF, (float)position, frequencies, x, y);
        for (int i = 0; i < HALF; i++) {
            float angle = (float)position * frequencies[i];
            worst = worse(worst, fabs((double)y[i] - sin((double)angle)));
            worst = worse(worst, fabs((double)y[HALF + i] - cos((double)angle)));
        }
    }
    print_message("sinusoids: largest error %.3g\n", worst);
    assert_true(worst <= 1.2e-7);
}

#define MAX_COLUMNS 4096

/* Returns the largest error relative to |gain| X + |bias|, which vector.h defines. The numbers of the row are `from` ±
 * `width`. */
static double layer_norm_error(const struct vector_functions *vector, int n, float from, float width)
{
    static float x[MAX_COLUMNS], y[MAX_COLUMNS], gain[MAX_COLUMNS], bias[MAX_COLUMNS];
    double mean = 0, variance = 0, largest = 0, worst = 0;
    for (int i = 0; i < n; i++) {
        x[i] = from + width * random_float();
        gain[i] = random_float();
        bias[i] = random_float();
        mean += (double)x[i] / n;
        largest = fmax(largest, fabs((double)x[i]));
    }
    for (int i = 0; i < n; i++)
        variance += pow((double)x[i] - mean, 2) / n;
    vector->layer_norm(1, n, x, gain, bias, 1e-5f, ELEMENT_F32, y);
    for (int i = 0; i < n; i++) {
        double deviation = sqrt(variance + (double)1e-5f), room = fabs((double)gain[i]) * largest / deviation;
        double expected = ((double)x[i] - mean) / deviation * (double)gain[i] + (double)bias[i];
        worst = worse(worst, fabs((double)y[i] - expected) / (room + fabs((double)bias[i])));
    }
    return worst;
}

/* Some rows are far from zero. A variance that is computed only from sums of squares would be inexact for them. In
 * other rows, all numbers are equal. */
static void layer_norm_is_near(void **state)
{
    static const float kinds[][2] = {{0, 1}, {30, 1}, {-1000, 0.1f}, {1e-3f, 1e-4f}, {7, 0}, {0, 1e6f}};
    const struct vector_functions *vector = functions(state);
    double worst = 0;
    for (int n = 1; n <= MAX_COLUMNS; n = n < 300 ? n + 1 : 2 * n - 37)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            worst = worse(worst, layer_norm_error(vector, n, kinds[i][0], kinds[i][1]));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        worst = worse(worst, layer_norm_error(vector, MAX_COLUMNS, kinds[i][0], kinds[i][1]));
    print_message("layer norm: largest error %.3g (|gain| X + |bias|)\n", worst);
    assert_true(worst <= 4e-7);
}

/* Maps x to an argument for which the function is defined, or to the edge of this range. */
static double argument_of(enum activation kind, double x)
{
    bool positive = kind == ACTIVATION_LOG || kind == ACTIVATION_SQUARE_ROOT || kind == ACTIVATION_INVERSE_ROOT;
    if (kind == ACTIVATION_LOG1P)
        return x <= -1 ? -1 - 1 / x : x;
    return positive ? fabs(x) : x;
}

/* Returns the size to which the error of the function is relative (vector.h). */
static double size_of_error(struct plan_activation f, double x, double y)
{
    if (f.kind == ACTIVATION_GELU || f.kind == ACTIVATION_GELU_TANH)
        return fabs(x);
    return f.kind == ACTIVATION_AFFINE ? fabs((double)f.a * x) + fabs((double)f.b) : fabs(y);
}

/* Writes numbers whose absolute values are between 1e-7 and 82, and some integers and halves. */
static void fill_arguments(enum activation kind, int64_t count, float *x)
{
    for (int64_t i = 0; i < count; i++) {
        double size = i % 7 ? exp((double)random_float() * 10.2 - 5.8) : (double)random_size(0, 160) / 2;
        x[i] = (float)argument_of(kind, i % 2 ? size : -size);
    }
}

static void check_function(const struct vector_functions *vector, struct plan_activation f, double tolerance)
{
    enum { ARGUMENTS = 4099 };
    static float x[ARGUMENTS], y[ARGUMENTS];
    fill_arguments(f.kind, ARGUMENTS, x);
    vector->activate(ARGUMENTS, f, x, y);
    double worst = 0;
    for (int i = 0; i < ARGUMENTS; i++) {
        double exact = scalar_activation(f, (double)x[i]), error = fabs((double)y[i] - exact);
        double size = size_of_error(f, (double)x[i], exact);
        if ((double)y[i] == exact || fabs(exact) < (double)FLT_MIN || !(fabs(exact) <= (double)FLT_MAX))
            continue;
        if (!(error <= tolerance * size))
            fail_msg("%s(%.9g): found %.9g, expected %.9g", activation_name(f.kind), (double)x[i], (double)y[i], exact);
        worst = fmax(worst, error / size);
    }
    print_message("%s: largest error %.3g\n", activation_name(f.kind), worst);
}

static void functions_keep_their_digits(void **state)
{
    const struct vector_functions *vector = functions(state);
    for (int kind = 0; kind < ACTIVATION_COUNT; kind++) {
        struct plan_activation f = {(enum activation)kind, 0.5f, 1.25f};
        bool coarse = multiplies_bf16(state) && kind == ACTIVATION_GELU;
        check_function(vector, f, coarse ? 1.1e-4 : 1e-6);
    }
    check_function(vector, (struct plan_activation){ACTIVATION_SOFTPLUS, 1, 20}, 1e-6);
    check_function(vector, (struct plan_activation){ACTIVATION_CLAMP, 3, -2}, 1e-6);
}

/* For NaN, zero and infinities, the results are those of torch. */
static void functions_of_extremes(void **state)
{
    const struct vector_functions *vector = functions(state);
    const struct {
        enum activation kind;
        float x, y;
    } cases[] = {
        {ACTIVATION_LOG, 0, -INFINITY},
        {ACTIVATION_LOG, -1, NAN},
        {ACTIVATION_LOG, INFINITY, INFINITY},
        {ACTIVATION_LOG, FLT_MIN / 1024, -94.268017f},
        {ACTIVATION_LOG1P, -1, -INFINITY},
        {ACTIVATION_LOG1P, -2, NAN},
        {ACTIVATION_LOG1P, INFINITY, INFINITY},
        {ACTIVATION_EXP, INFINITY, INFINITY},
        {ACTIVATION_EXP, -INFINITY, 0},
        {ACTIVATION_EXPM1, -INFINITY, -1},
        {ACTIVATION_TANH, INFINITY, 1},
        {ACTIVATION_TANH, -INFINITY, -1},
        {ACTIVATION_SIGMOID, -INFINITY, 0},
        {ACTIVATION_SIGMOID, INFINITY, 1},
        {ACTIVATION_MISH, 1e30f, 1e30f},
        {ACTIVATION_SOFTPLUS, INFINITY, INFINITY},
        {ACTIVATION_LOG_SIGMOID, INFINITY, 0},
        {ACTIVATION_INVERSE_ROOT, 0, INFINITY},
        {ACTIVATION_SQUARE_ROOT, -1, NAN},
        {ACTIVATION_RECIPROCAL, 0, INFINITY},
        {ACTIVATION_ROUND, 2.5f, 2},
        {ACTIVATION_ROUND, 1e20f, 1e20f},
        {ACTIVATION_NOT, NAN, 0},
        {ACTIVATION_IS_NAN, NAN, 1},
        {ACTIVATION_SIGN, NAN, 0},
        {ACTIVATION_GELU_TANH, 1e30f, 1e30f},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float y;
        vector->activate(1, (struct plan_activation){cases[i].kind, 1, 20}, &cases[i].x, &y);
        bool same = isnan(cases[i].y) ? isnan(y) : y == cases[i].y || fabsf(y - cases[i].y) <= 1e-6f * fabsf(y);
        if (!same)
            fail_msg("%s(%g): found %.9g, expected %.9g", activation_name(cases[i].kind), (double)cases[i].x, (double)y,
                     (double)cases[i].y);
    }
    for (int kind = 0; kind < ACTIVATION_NOT; kind++) {
        float x = NAN, y;
        vector->activate(1, (struct plan_activation){(enum activation)kind, 1, 20}, &x, &y);
        if (!isnan(y) && kind != ACTIVATION_SIGN)
            fail_msg("%s(NaN): found %.9g", activation_name((enum activation)kind), (double)y);
    }
}

/* Functions of NaN, zero, infinities, and numbers of different signs. The results are those of torch. */
static void combinations_of_extremes(void **state)
{
    const struct vector_functions *vector = functions(state);
    const struct {
        enum plan_function function;
        float x, z, y;
    } cases[] = {
        {FUNCTION_MAXIMUM, NAN, 1, NAN},
        {FUNCTION_MAXIMUM, 1, NAN, NAN},
        {FUNCTION_MINIMUM, NAN, 1, NAN},
        {FUNCTION_MINIMUM, 1, NAN, NAN},
        {FUNCTION_FLOOR_DIVIDE, 1, 0.1f, 9},
        {FUNCTION_FLOOR_DIVIDE, -7, 2, -4},
        {FUNCTION_FLOOR_DIVIDE, 7, -2, -4},
        {FUNCTION_FLOOR_DIVIDE, 1, 0, INFINITY},
        {FUNCTION_FLOOR_DIVIDE, -3, INFINITY, -1},
        {FUNCTION_REMAINDER, -7, 3, 2},
        {FUNCTION_REMAINDER, 7, -3, -2},
        {FUNCTION_REMAINDER, 1, 0, NAN},
        {FUNCTION_TRUNCATE_DIVIDE, -7, 2, -3},
        {FUNCTION_DIVIDE, -1, 0, -INFINITY},
        {FUNCTION_POWER, 0, 0, 1},
        {FUNCTION_POWER, -2, 0.5f, NAN},
        {FUNCTION_EQUAL, NAN, NAN, 0},
        {FUNCTION_NOT_EQUAL, NAN, NAN, 1},
        {FUNCTION_LESS, NAN, 1, 0},
        {FUNCTION_AND, NAN, 1, 1},
        {FUNCTION_XOR, NAN, 1, 0},
        {FUNCTION_OR, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float y;
        vector->combine(1, cases[i].function, &cases[i].x, &cases[i].z, &y);
        if (isnan(cases[i].y) ? !isnan(y) : y != cases[i].y)
            fail_msg("%s(%g, %g): found %.9g, expected %.9g", function_name(cases[i].function), (double)cases[i].x,
                     (double)cases[i].z, (double)y, (double)cases[i].y);
    }
}

static void softmax_has_exact_exponentials(void **state)
{
    const struct vector_functions *vector = functions(state);
    double worst = 0;
    for (int i = 0; i < POINTS; i++) {
        float x[2] = {0, -87.0f * (float)i / (POINTS - 1)};
        double e = exp((double)x[1]);
        vector->softmax(2, 1, x);
        worst = worse(worst, fabs((double)x[1] / (e / (1 + e)) - 1));
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

static double expected_log_sum(int64_t n, const float *x)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, (double)x[i]);
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - most);
    return most + log(sum);
}

static void log_sum_is_exact(void **state)
{
    enum { MAX_LENGTH = 20000 };
    const struct vector_functions *vector = functions(state);
    static float x[MAX_LENGTH];
    double worst = 0;
    for (int64_t n = 1; n <= MAX_LENGTH; n = n < 600 ? n + 1 : n * 3 / 2) {
        for (int64_t i = 0; i < n; i++)
            x[i] = random_float() * (float)(n % 90) - (float)(n % 7);
        worst = worse(worst, fabs(vector->log_sum(n, x) - expected_log_sum(n, x)));
    }
    for (int64_t i = 0; i < MAX_LENGTH; i++) /* all sums of these numbers are rounded in the same direction */
        x[i] = 1.0000001f;
    worst = worse(worst, fabs(vector->log_sum(MAX_LENGTH, x) - expected_log_sum(MAX_LENGTH, x)));
    print_message("log_sum: largest error %.2g\n", worst);
    assert_true(worst <= 1e-6);
}

static void log_sum_of_extremes(void **state)
{
    const struct vector_functions *vector = functions(state);
    const float large[3] = {1e30f, -1e30f, -INFINITY}, none[2] = {-INFINITY, -INFINITY};
    assert_true(vector->log_sum(3, large) == (double)1e30f);
    assert_true(vector->log_sum(1, large + 1) == (double)-1e30f);
    assert_true(isnan(vector->log_sum(2, none)));
    for (int n = 1; n < 40; n++) {
        float x[40] = {0};
        for (int at = 0; at < n; at++) {
            x[at] = NAN;
            assert_true(isnan(vector->log_sum(n, x)));
            x[at] = INFINITY;
            assert_true(isnan(vector->log_sum(n, x)));
            x[at] = 0;
        }
    }
}

/* Tests one step of causal linear attention: the context grows by one row, and a query reads the context. The results
 * are compared with sums in double. If `adds` is false, the context does not grow. If `reads` is false, no query is
 * given. */
static void expect_context_step(const struct vector_functions *vector, int rows, int columns, bool adds, bool reads)
{
    enum { MAX_SIDE = 80 };
    float context[MAX_SIDE * MAX_SIDE], before[MAX_SIDE * MAX_SIDE], query[MAX_SIDE], powers[MAX_SIDE], value[MAX_SIDE],
        y[MAX_SIDE];
    for (int i = 0; i < rows; i++) {
        query[i] = random_float();
        powers[i] = fabsf(random_float());
    }
    for (int c = 0; c < columns; c++) {
        value[c] = random_float();
        y[c] = -7;
    }
    for (int i = 0; i < rows * columns; i++)
        before[i] = context[i] = random_float();
    vector->step_context(rows, columns, reads ? query : NULL, adds ? powers : NULL, value, context, reads ? y : NULL);
    for (int c = 0; c < columns; c++) {
        double sum = 0, size = 0;
        for (int i = 0; i < rows; i++) {
            double added = adds ? (double)powers[i] * (double)value[c] : 0;
            double x = (double)before[i * columns + c] + added;
            assert_true(fabs((double)context[i * columns + c] - x) <= 1e-6);
            sum += (double)query[i] * x;
            size += fabs((double)query[i] * x);
        }
        assert_true(reads ? fabs((double)y[c] - sum) <= 1e-6 * (1 + size) : y[c] == -7);
    }
}

static void contexts_step_by_one_row(void **state)
{
    const struct vector_functions *vector = functions(state);
    static const int sizes[] = {1, 3, 8, 16, 17, 63, 64, 80};
    for (size_t d = 0; d < sizeof sizes / sizeof *sizes; d++) {
        for (size_t e = 0; e < sizeof sizes / sizeof *sizes; e++) {
            expect_context_step(vector, sizes[d], sizes[e], true, true);
            expect_context_step(vector, sizes[d], sizes[e], true, false);
            expect_context_step(vector, sizes[d], sizes[e], false, true);
        }
    }
}

/* The result of a row must not depend on its address, or on neighbouring rows. */
static void rows_do_not_depend_on_other_rows(void **state)
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
    struct vector_keys head = {
        .k = K,
        .dim_head = DIM,
        .dim_value = DIM,
        .keys = keys,
        .key_stride = DIM,
        .values = values,
        .value_stride = DIM,
    };
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

static double element_at(enum element element, const void *row, int64_t i)
{
    float x;
    if (element == ELEMENT_F32)
        return (double)((const float *)row)[i];
    uint32_t word = (uint32_t)((const uint16_t *)row)[i] << 16;
    memcpy(&x, &word, sizeof x);
    return (double)x;
}

/* Computes the attention of one row in double. `weights` has k + zero_keys elements. */
static void attend_exactly(const struct vector_attend *a, const struct vector_keys *keys, int64_t row, double *out,
                           double *weights)
{
    int64_t zeros = a->causal ? 0 : a->zero_keys;
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < a->k + a->zero_keys; j++) {
        weights[j] = 0;
        for (int64_t d = 0; j < a->k && d < a->dim_head; d++)
            weights[j] += element_at(a->query_element, a->queries, row * a->query_stride + d) *
                          element_at(keys->key_element, keys->keys, j * keys->key_stride + d);
        weights[j] = (double)a->scale * weights[j];
        if (j < a->k && a->mask.floats)
            weights[j] += (double)a->mask.floats[row * a->mask.stride + j];
        if ((a->causal && j > a->first_position + row) || j >= a->k + zeros)
            weights[j] = -INFINITY;
        largest = fmax(largest, weights[j]);
    }
    for (int64_t j = 0; j < a->k + a->zero_keys; j++)
        sum += weights[j] = exp(weights[j] - largest);
    memset(out, 0, (size_t)a->dim_value * sizeof *out);
    for (int64_t j = 0; j < a->k + a->zero_keys; j++) {
        weights[j] /= sum;
        for (int64_t d = 0; j < a->k && d < a->dim_value; d++)
            out[d] += weights[j] * element_at(keys->value_element, keys->values, j * keys->value_stride + d);
    }
}

/* Writes n random numbers with 8 significant bits, as floats or as bf16. They rise from about `least` by `rise`. */
static void random_elements(const struct vector_functions *vector, enum element element, int64_t n, float least,
                            float rise, void *elements)
{
    for (int64_t i = 0; i < n; i++) {
        float x = random_float() + least + rise * (float)i / (float)n;
        uint16_t upper;
        vector->to_bf16(1, &x, &upper);
        x = (float)element_at(ELEMENT_BF16, &upper, 0);
        if (element == ELEMENT_F32)
            ((float *)elements)[i] = x;
        else
            ((uint16_t *)elements)[i] = upper;
    }
}

/* Compares an attention over several tiles of keys, its output and its weights. The scores rise from tile to tile.
 * Variant 1 is causal, variant 2 has additional keys with score 0 and value 0, and in variant 3 a mask hides the whole
 * first tile. All factors have 8 significant bits, except the weights of the values. */
static void check_attention(const struct vector_functions *vector, enum element element, int variant, double tolerance)
{
    enum { K = 2 * VECTOR_TILE_KEYS + 77, DIM = 37, ROWS = VECTOR_GROUP_ROWS + 3, ZEROS = 5 };
    static float keys[K * DIM], values[K * DIM], queries[ROWS * DIM], mask[ROWS * K], out[ROWS * DIM];
    static float weights[ROWS * (K + ZEROS)];
    float *packed = aligned_alloc(64, (size_t)(vector_packed_keys(K, DIM, DIM) + 16) / 16 * 64);
    float *scratch = aligned_alloc(64, (size_t)(vector_attend_scratch(DIM, DIM) + 16) / 16 * 64);
    random_elements(vector, element, K * DIM, 0, 4, keys);
    random_elements(vector, element, K * DIM, 0, 0, values);
    random_elements(vector, element, ROWS * DIM, 0.3f, 0, queries);
    for (int i = 0; i < ROWS * K; i++)
        mask[i] = i % K < VECTOR_TILE_KEYS ? -INFINITY : random_float();
    struct vector_keys head = {
        .k = K,
        .dim_head = DIM,
        .dim_value = DIM,
        .keys = keys,
        .key_stride = DIM,
        .values = values,
        .value_stride = DIM,
        .key_element = element,
        .value_element = element,
    };
    vector->pack_keys(&head, packed);
    struct vector_attend attend = {.rows = ROWS,
                                   .k = K,
                                   .dim_head = DIM,
                                   .dim_value = DIM,
                                   .queries = queries,
                                   .query_stride = DIM,
                                   .query_element = element,
                                   .packed = packed,
                                   .scale = 0.6f,
                                   .causal = variant == 1,
                                   .first_position = VECTOR_TILE_KEYS - 10,
                                   .zero_keys = variant == 2 ? ZEROS : 0,
                                   .out = out,
                                   .out_stride = DIM,
                                   .out_element = element,
                                   .softmax = weights,
                                   .softmax_rows = ROWS - 1,
                                   .scratch = scratch};
    if (variant == 3)
        attend.mask = (struct vector_mask){.floats = mask, .stride = K};
    vector->attend(&attend);
    double worst = 0, worst_weight = 0;
    for (int r = 0; r < ROWS; r++) {
        double exact[DIM], exact_weights[K + ZEROS];
        attend_exactly(&attend, &head, r, exact, exact_weights);
        for (int d = 0; d < DIM; d++)
            worst = worse(worst, fabs(element_at(element, out, r * DIM + d) - exact[d]));
        for (int64_t j = 0; r < attend.softmax_rows && j < K + attend.zero_keys; j++)
            worst_weight =
                worse(worst_weight, fabs((double)weights[r * (K + attend.zero_keys) + j] - exact_weights[j]));
    }
    print_message("attention, variant %d, %s: largest error %.3g, of weights %.3g\n", variant,
                  element == ELEMENT_F32 ? "f32" : "bf16", worst, worst_weight);
    assert_true(worst <= tolerance && worst_weight <= 5e-6);
    free(packed);
    free(scratch);
}

static void attention_goes_over_tiles(void **state)
{
    const struct vector_functions *vector = functions(state);
    const double rounded = 1.0 / 512;
    for (int variant = 0; variant < 4; variant++) {
        check_attention(vector, ELEMENT_F32, variant, multiplies_bf16(state) ? rounded : 5e-6);
        check_attention(vector, ELEMENT_BF16, variant, rounded);
    }
}

/* Results in bf16 must be the rounded results in float. Most rows end within a vector. */
static void rows_are_written_in_bf16(void **state)
{
    const struct vector_functions *vector = functions(state);
    enum { MAX_LENGTH = 70 };
    float x[MAX_LENGTH], gain[MAX_LENGTH], bias[MAX_LENGTH], floats[MAX_LENGTH];
    uint16_t rounded[MAX_LENGTH], halves[MAX_LENGTH + 1];
    for (int i = 0; i < MAX_LENGTH; i++) {
        x[i] = random_float();
        gain[i] = random_float();
        bias[i] = random_float();
    }
    for (int n = 1; n <= MAX_LENGTH; n++) {
        halves[n] = 0x1234;
        vector->layer_norm(1, n, x, gain, bias, 1e-5f, ELEMENT_F32, floats);
        vector->layer_norm(1, n, x, gain, bias, 1e-5f, ELEMENT_BF16, halves);
        vector->to_bf16(n, floats, rounded);
        assert_memory_equal(halves, rounded, (size_t)n * sizeof *rounded);
        struct vector_finish finish = {.rows = 1,
                                       .columns = n,
                                       .x = x,
                                       .bias = bias,
                                       .activation = {.kind = ACTIVATION_GELU},
                                       .residual = gain,
                                       .y = floats};
        vector->finish_linear(&finish);
        finish.y_element = ELEMENT_BF16;
        finish.y = halves;
        vector->finish_linear(&finish);
        vector->to_bf16(n, floats, rounded);
        assert_memory_equal(halves, rounded, (size_t)n * sizeof *rounded);
        assert_int_equal(halves[n], 0x1234);
    }
}

static struct variant baseline = {SET_BASELINE, false}, avx2 = {SET_AVX2, false}, avx512 = {SET_AVX512, false},
                      avx512_bf16 = {SET_AVX512, true};

#define IN(test, variant)                              \
    {                                                  \
#test " " #variant, test, NULL, NULL, &variant \
    }
#define EACH(test) IN(test, baseline), IN(test, avx2), IN(test, avx512), IN(test, avx512_bf16)

int main(void)
{
    random_seed(7);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_supported_instruction_sets_are_accepted),
        EACH(gelu_is_near),
        EACH(functions_keep_their_digits),
        EACH(functions_of_extremes),
        EACH(combinations_of_extremes),
        EACH(softmax_has_exact_exponentials),
        EACH(softmax_of_extremes),
        EACH(log_sum_is_exact),
        EACH(log_sum_of_extremes),
        EACH(contexts_step_by_one_row),
        EACH(softmax_sums_to_one),
        EACH(rows_do_not_depend_on_other_rows),
        EACH(exp_is_within_two_ulp),
        EACH(weights_are_near_exponentials),
        EACH(layer_norm_is_near),
        EACH(sinusoids_keep_their_digits),
        EACH(attention_goes_over_tiles),
        EACH(rows_are_written_in_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
