/* Matrix products of floats on tensor cores (engine/cuda/split_tile.h), compared with sums in double precision. The
 * relative L2 error must be at most 1e-6, although tensor cores round towards zero. The engine splits each float into a
 * high and a low part in TF32, and adds up outside of the tensor cores. The faults below, which omit one of these
 * steps, must give a larger error. Otherwise the test could not detect them. SEED chooses the random numbers. */
#include "engine/cuda/split_tile.h"
#include "tests/cuda/launch.h"
#include "tests/cuda/schedules.h"

#include <math.h>
#include <stdlib.h>

#include <random>
#include <vector>

#define MAX_ERROR 1e-6
/* Maximum error for a depth of up to 512. If high parts were truncated instead of rounded, the error would be
 * larger. */
#define MAX_SHORT_ERROR 2.5e-7

typedef std::vector<float> floats;

static std::mt19937 generator;

static float *to_device(const floats &x)
{
    return (float *)to_device(x.data(), x.size() * sizeof(float));
}

static void to_host(floats *x, float *memory)
{
    to_host(x->data(), memory, x->size() * sizeof(float));
}

/* ---- Products ---- */

/* A product of A (rows, depth) and B (depth, columns). A is stored row by row, and B column by column. */
struct product {
    int64_t rows, columns, depth;
    floats a, b;
};

template <int LINES, bool A_ALONG, bool B_ALONG>
static __global__ void __launch_bounds__(SPLIT_WARPS *WARP)
    multiply(int64_t rows, int64_t columns, int64_t depth, const float *a, const float *b, bool packed, float *out)
{
    struct split_operand x = {a, A_ALONG ? depth : rows, rows, packed};
    struct split_operand y = {b, B_ALONG ? depth : columns, columns, packed};
    struct split_sums<LINES> sums = {
    };
    split_multiply<LINES, A_ALONG, B_ALONG>(x, y, depth, &sums);
    split_give(sums, [&](int r, int c, float first, float second) {
        if (r < rows && c < columns)
            out[r * columns + c] = first;
        if (r < rows && c + 1 < columns)
            out[r * columns + c + 1] = second;
    });
}

static floats turned(const floats &x, int64_t lines, int64_t depth)
{
    floats y(x.size());
    for (int64_t i = 0; i < lines; i++)
        for (int64_t l = 0; l < depth; l++)
            y[(size_t)(l * lines + i)] = x[(size_t)(i * depth + l)];
    return y;
}

template <int LINES, bool A_ALONG, bool B_ALONG> static floats multiplied(const struct product &p)
{
    floats out((size_t)(p.rows * p.columns));
    float *a = to_device(A_ALONG ? p.a : turned(p.a, p.rows, p.depth));
    float *b = to_device(B_ALONG ? p.b : turned(p.b, p.columns, p.depth)), *y = to_device(out);
    bool packed = ((A_ALONG ? p.depth : p.rows) | (B_ALONG ? p.depth : p.columns)) % 4 == 0;
    launch_block(multiply<LINES, A_ALONG, B_ALONG>, SPLIT_WARPS * WARP,
                 SPLIT_STAGES * sizeof(struct split_stage<LINES, A_ALONG, B_ALONG>), p.rows, p.columns, p.depth, a, b,
                 packed, y);
    to_host(&out, y);
    cudaFree(a);
    cudaFree(b);
    return out;
}

/* ---- Products with faults, computed by one warp: A (16, depth), B (depth, 8) ---- */

enum fault { IN_TENSOR_CORES, NO_LOW_OF_A, NO_LOW_OF_B };

static __global__ void multiply_wrongly(int depth, const float *a, const float *b, enum fault fault, float *out)
{
    int g = warp_thread() / 4, t = warp_thread() % 4;
    float large[4] = {}, small[4] = {};
    for (int d = 0; d < depth; d += SPLIT_DEPTH) {
        uint32_t own_a[4], own_b[4] = {};
        struct split<4> x, y;
        for (int i = 0; i < 4; i++)
            own_a[i] = __float_as_uint(a[(g + i % 2 * 8) * depth + d + t + i / 2 * 4]);
        for (int i = 0; i < 2; i++)
            own_b[i] = __float_as_uint(b[g * depth + d + t + i * 4]);
        split_of(&x, own_a);
        split_of(&y, own_b);
        for (int i = 0; i < 4; i++) {
            x.low[i] = fault == NO_LOW_OF_A ? 0 : x.low[i];
            y.low[i] = fault == NO_LOW_OF_B ? 0 : y.low[i];
        }
        if (fault == IN_TENSOR_CORES) {
            multiply_add_tf32(small, x.low, y.high[0], y.high[1]);
            multiply_add_tf32(small, x.high, y.low[0], y.low[1]);
            multiply_add_tf32(large, x.high, y.high[0], y.high[1]);
        } else
            split_multiply_add(large, small, x, y, 0);
    }
    for (int i = 0; i < 4; i++)
        out[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = split_sum(large[i], small[i]);
}

static floats multiplied_wrongly(const struct product &p, enum fault fault)
{
    floats out((size_t)(p.rows * p.columns));
    float *a = to_device(p.a), *b = to_device(p.b), *y = to_device(out);
    launch_block(multiply_wrongly, WARP, 0, (int)p.depth, a, b, fault, y);
    to_host(&out, y);
    cudaFree(a);
    cudaFree(b);
    return out;
}

/* ---- Comparing ---- */

enum numbers { SIGNED, POSITIVE, WIDE };

static float random_number(enum numbers numbers)
{
    float x = std::normal_distribution<float>()(generator);
    if (numbers == WIDE)
        x = ldexpf(x, (int)(generator() % 60) - 30);
    return numbers == POSITIVE ? fabsf(x) : x;
}

static struct product random_product(int64_t rows, int64_t columns, int64_t depth, enum numbers numbers)
{
    struct product p = {rows, columns, depth, floats((size_t)(rows * depth)), floats((size_t)(columns * depth))};
    for (float &x : p.a)
        x = random_number(numbers);
    for (float &x : p.b)
        x = random_number(numbers);
    return p;
}

/* Returns the relative L2 error of `out`. */
static double error_of(const struct product &p, const floats &out)
{
    double difference = 0, norm = 0;
    for (int64_t r = 0; r < p.rows; r++)
        for (int64_t c = 0; c < p.columns; c++) {
            double sum = 0;
            for (int64_t l = 0; l < p.depth; l++)
                sum += (double)p.a[(size_t)(r * p.depth + l)] * (double)p.b[(size_t)(c * p.depth + l)];
            double apart = out[(size_t)(r * p.columns + c)] - sum;
            difference += apart * apart;
            norm += sum * sum;
        }
    return sqrt(difference / norm);
}

/* Expects that all floats are equal bit by bit. */
static void assert_same(const floats &x, const floats &y)
{
    assert_memory_equal(x.data(), y.data(), x.size() * sizeof(float));
}

static void errors_of_split_products_are_small(void **)
{
    static const struct {
        int64_t rows, columns, depth;
        enum numbers numbers;
    } shapes[] = {
        {1, 1, 1, SIGNED},       {17, 9, 7, SIGNED},     {64, 64, 64, POSITIVE}, {61, 50, 203, WIDE},
        {33, 20, 512, POSITIVE}, {32, 32, 1024, SIGNED}, {16, 32, 4096, SIGNED}, {16, 16, 4096, POSITIVE},
    };
    for (const auto &shape : shapes) {
        struct product p = random_product(shape.rows, shape.columns, shape.depth, shape.numbers);
        double error = error_of(p, multiplied<64, true, true>(p));
        print_message("depth %d: relative L2 error %.2g\n", (int)shape.depth, error);
        assert_true(error <= (shape.depth <= 512 ? MAX_SHORT_ERROR : MAX_ERROR));
    }
}

/* Tests every layout and both sizes of tiles, with and without loads of 16 bytes. */
static void all_tile_sizes_and_layouts_have_the_same_results(void **)
{
    static const int64_t shapes[][3] = {{128, 72, 64}, {50, 125, 31}};
    for (const auto &shape : shapes) {
        struct product p = random_product(shape[0], shape[1], shape[2], SIGNED);
        floats large = multiplied<128, true, true>(p);
        assert_true(error_of(p, large) <= MAX_ERROR);
        assert_same(multiplied<128, false, true>(p), large);
        assert_same(multiplied<128, true, false>(p), large);
        assert_same(multiplied<128, false, false>(p), large);
        p.rows = p.columns = 50;
        p.a.resize((size_t)(p.rows * p.depth));
        p.b.resize((size_t)(p.columns * p.depth));
        floats small = multiplied<64, true, true>(p);
        assert_same(multiplied<128, true, true>(p), small);
        assert_same(multiplied<64, false, true>(p), small);
        assert_same(multiplied<64, true, false>(p), small);
        assert_same(multiplied<64, false, false>(p), small);
    }
}

/* The bounds are a third of the smallest errors with SEED=1 to SEED=10. */
static void faulty_split_products_have_large_errors(void **)
{
    struct product p = random_product(16, 8, 4096, SIGNED);
    assert_true(error_of(p, multiplied_wrongly(p, IN_TENSOR_CORES)) > 3 * MAX_ERROR);
    assert_true(error_of(p, multiplied_wrongly(p, NO_LOW_OF_A)) > 30 * MAX_ERROR);
    assert_true(error_of(p, multiplied_wrongly(p, NO_LOW_OF_B)) > 30 * MAX_ERROR);
}

/* Row r of A is values[r] in column 3, and 1 elsewhere. Column c of B is values[c] in row 3, and 1 elsewhere. A result
 * must be infinite or NaN if the result of float arithmetic is. Other results must be close to those of float
 * arithmetic. */
static void infinities_and_nans_are_those_of_float_products(void **)
{
    static const float values[] = {INFINITY, -INFINITY, NAN,   0,      -0.0f, 1 + 0x1p-20f,
                                   -3,       1e-30f,    3e38f, -1e38f, 2e19f, 0x1p-126f};
    const int64_t count = sizeof values / sizeof *values;
    struct product p = {count, count, 12, floats(count * 12, 1), floats(count * 12, 1)};
    for (int64_t i = 0; i < count; i++)
        p.a[(size_t)(i * 12 + 3)] = p.b[(size_t)(i * 12 + 3)] = values[i];
    floats out = multiplied<64, true, true>(p);
    for (int64_t i = 0; i < count * count; i++) {
        float expected = values[i / count] * values[i % count] + 11;
        float found = out[(size_t)i];
        bool same = isnan(expected)   ? isnan(found)
                    : isinf(expected) ? found == expected
                                      : fabsf(found - expected) <= 1e-6f * fabsf(expected);
        if (!same)
            fail_msg("%g * %g + 11 is %g and not %g", (double)values[i / count], (double)values[i % count],
                     (double)found, (double)expected);
    }
}

/* If there are few tiles, small tiles keep all multiprocessors busy. Otherwise the number of rounds decides. In a
 * round, each multiprocessor computes one tile. */
static void the_faster_tiles_are_chosen(void **state)
{
    (void)state;
    assert_false(split_large_are_faster(1, 4, 132));
    assert_true(split_large_are_faster(128, 512, 132));
    assert_false(split_large_are_faster(128, 512, 108)); /* with 108 multiprocessors, 128 large tiles need two rounds */
    assert_true(split_large_are_faster(10000, 40000, 132));
    assert_false(split_large_are_faster(10000, 20000, 132)); /* half of each large tile would be empty */
}

static int run_split(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_of_split_products_are_small),
        cmocka_unit_test(all_tile_sizes_and_layouts_have_the_same_results),
        cmocka_unit_test(faulty_split_products_have_large_errors),
        cmocka_unit_test(infinities_and_nans_are_those_of_float_products),
        cmocka_unit_test(the_faster_tiles_are_chosen),
    };
    unsigned long seed = getenv("SEED") ? strtoul(getenv("SEED"), NULL, 10) : 20261123;
    print_message("SEED=%lu\n", seed);
    generator.seed((unsigned)seed);
    return cmocka_run_group_tests_name("split", tests, open_stream, close_stream);
}

int main(void)
{
    return run_schedules(run_split);
}
