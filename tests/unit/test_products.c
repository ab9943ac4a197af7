/* Products with weights, tile by tile, against sums in double; and a row's bits whatever rows are beside it. SEED
 * chooses shapes and numbers. */
#include "engine/cpu/products.h"
#include "tests/unit/tensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SHAPES 40

static float *random_floats(int64_t count)
{
    float *floats = malloc((size_t)count * sizeof *floats);
    for (int64_t i = 0; i < count; i++)
        floats[i] = random_float();
    return floats;
}

/* false: this machine or build has no such provider. */
static bool open_products(const char *provider, bool bf16, struct products *products)
{
    enum instruction_set set;
    struct error error;
    assert_int_equal(instruction_set_choose("auto", &set, &error), 0);
    if (products_open(set, provider, bf16, 2, products, &error) == 0)
        return true;
    print_message("# not tried: %s\n", error.message);
    return false;
}

/* `rows` rows of x from `first` on through all panels, into y (rows, columns). */
static void multiply(const struct products *products, const struct product_weight *weight, int64_t rows,
                     int64_t columns, int64_t depth, const float *x, float *y, int thread)
{
    float *scratch = aligned_alloc(64, (size_t)(products_linear_scratch(products, depth) + 16) / 16 * 64);
    const void *block = products_linear_rows(products, rows, depth, x, scratch);
    for (int64_t panel = 0; panel * PRODUCTS_PANEL < columns; panel++) {
        int64_t first = panel * PRODUCTS_PANEL;
        int64_t width = columns - first < PRODUCTS_PANEL ? columns - first : PRODUCTS_PANEL;
        const float *tile = products_linear_tile(products, weight, panel, rows, block, scratch, thread);
        assert_non_null(tile);
        for (int64_t r = 0; r < rows; r++)
            memcpy(y + r * columns + first, tile + r * width, (size_t)width * sizeof *y);
    }
    free(scratch);
}

static void expect_near_sums(int64_t rows, int64_t columns, int64_t depth, const float *x, const float *w,
                             const float *y, double tolerance)
{
    double errors = 0, squares = 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            double sum = 0;
            for (int64_t i = 0; i < depth; i++)
                sum += (double)x[r * depth + i] * (double)w[c * depth + i];
            errors += (y[r * columns + c] - sum) * (y[r * columns + c] - sum);
            squares += sum * sum;
        }
    }
    assert_true(sqrt(errors) <= tolerance * sqrt(squares));
}

static void check_shape(const struct products *products, int64_t columns, int64_t depth, double tolerance)
{
    struct product_weight *weight;
    struct error error;
    float *x = random_floats(2 * PLAN_ROW_BLOCK * depth), *w = random_floats(columns * depth);
    float *copy = malloc((size_t)(columns * depth) * sizeof *copy);
    float *y = calloc((size_t)(PLAN_ROW_BLOCK * columns), sizeof *y), *some = calloc((size_t)(64 * columns), sizeof *y);
    memcpy(copy, w, (size_t)(columns * depth) * sizeof *copy);
    assert_int_equal(products_take_weight(products, columns, depth, copy, &weight, &error), 0);
    assert_true(products_weight_bytes(weight) >= (size_t)(columns * depth) * (products->bf16 ? 2 : 4));
    multiply(products, weight, PLAN_ROW_BLOCK, columns, depth, x, y, 0);
    expect_near_sums(PLAN_ROW_BLOCK, columns, depth, x, w, y, tolerance);
    for (int i = 0; i < 8 && products->batch_invariant; i++) {
        int64_t first = random_size(0, PLAN_ROW_BLOCK - 1), rows = random_size(1, PLAN_ROW_BLOCK - first);
        multiply(products, weight, rows, columns, depth, x + first * depth, some, 1);
        assert_memory_equal(some, y + first * columns, (size_t)(rows * columns) * sizeof *some);
    }
    products_free_weight(products, weight);
    free(x);
    free(w);
    free(y);
    free(some);
}

static void check_provider(const char *provider, bool bf16, double tolerance)
{
    static const int64_t edges[][2] = {{1, 1}, {1, 512}, {257, 3}, {256, 64}, {64, 256}, {513, 2048}, {512, 512}};
    struct products products;
    if (!open_products(provider, bf16, &products))
        return;
    print_message("# %s\n", products.description);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        check_shape(&products, edges[i][0], edges[i][1], tolerance);
    for (int i = 0; i < SHAPES; i++)
        check_shape(&products, random_size(1, 600), random_size(1, i % 8 ? 300 : 3000), tolerance);
    products_close(&products);
}

static void openblas_multiplies(void **state)
{
    (void)state;
    check_provider("openblas", false, 1e-6);
}

static void onednn_multiplies(void **state)
{
    (void)state;
    check_provider("onednn", false, 1e-6);
}

static void onednn_multiplies_bf16(void **state) /* whose numbers have 8 bits */
{
    (void)state;
    check_provider("onednn", true, 5e-3);
}

static void numbers_become_the_nearest_bf16(void **state)
{
    static const struct {
        float from;
        uint16_t to;
    } numbers[] = {
        {1.0f, 0x3f80},        {-0.0f, 0x8000},       {1.00390625f, 0x3f80}, /* a tie: to even */
        {1.01171875f, 0x3f82}, {1.00390637f, 0x3f81}, {3.4e38f, 0x7f80},     /* beyond the largest: infinite */
        {INFINITY, 0x7f80},    {-INFINITY, 0xff80},   {1e-40f, 0x0001},
    };
    (void)state;
    for (int set = 0; set < SET_COUNT; set++) {
        const struct vector_functions *vector = vector_functions_of((enum instruction_set)set);
        enum instruction_set chosen;
        struct error error;
        uint16_t result;
        if (!vector || instruction_set_choose(vector->name, &chosen, &error) != 0)
            continue;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            vector->to_bf16(1, &numbers[i].from, &result);
            assert_int_equal(result, numbers[i].to);
        }
        vector->to_bf16(1, &(float){NAN}, &result);
        assert_true((result & 0x7fff) > 0x7f80);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(openblas_multiplies),
        cmocka_unit_test(onednn_multiplies),
        cmocka_unit_test(onednn_multiplies_bf16),
        cmocka_unit_test(numbers_become_the_nearest_bf16),
    };
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20261120;
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
