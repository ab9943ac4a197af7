/* Tests of products with weights, computed tile by tile, which are compared with sums in double precision. If the
 * products are batch invariant, the bits of a row must not depend on other rows. SEED chooses shapes and numbers. */
#include "engine/cpu/products.h"
#include "tests/unit/onednn.h"
#include "tests/unit/tensors.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef PR_SET_MDWE /* an option of prctl since Linux 6.3, which forbids to execute memory that was writable */
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#define SHAPES 40

static float *random_floats(int64_t count)
{
    float *floats = malloc((size_t)count * sizeof *floats);
    for (int64_t i = 0; i < count; i++)
        floats[i] = random_float();
    return floats;
}

/* Opens the products. The test is skipped if the processor, the library or the build does not support them. */
static void open_products(enum product_library library, bool bf16, struct products *products)
{
    bool onednn = library == LIBRARY_ONEDNN;
    enum instruction_set set;
    struct error error;
    assert_int_equal(instruction_set_choose(SET_AUTO, &set, &error), 0);
    if ((bf16 && !cpu_has_bf16()) || (onednn && (set != SET_AVX512 || !has_onednn())))
        skip();
    if (products_open(set, library, bf16, 2, products, &error) != 0)
        fail_msg("%s", error.message);
    assert_true(!onednn || products->onednn);
}

/* Multiplies `rows` rows of x by all panels of the weight. The result is y (rows, columns). */
static void multiply(const struct products *products, const struct product_weight *weight, int64_t rows,
                     int64_t columns, int64_t depth, const float *x, float *y, int thread)
{
    float *scratch = aligned_alloc(64, (size_t)(products_linear_scratch(products, depth) + 16) / 16 * 64);
    struct product_tile tile = {
        .weight = weight,
        .x = products_linear_rows(products, weight, rows, ELEMENT_F32, x, scratch),
        .finish = {.rows = rows, .columns = columns, .y = y, .y_stride = columns},
    };
    for (; tile.panel * PRODUCTS_PANEL < columns; tile.panel++)
        assert_int_equal(products_linear_tile(products, &tile, scratch, thread), 0);
    free(scratch);
}

/* Computes the product with epilogues, with x in bf16 if possible, and with y in bf16. Compares the results with the
 * given plain product. */
static void check_what_follows(const struct products *products, const struct product_weight *weight, int64_t rows,
                               int64_t columns, int64_t depth, const float *x, const float *product)
{
    float *scratch = aligned_alloc(64, (size_t)(products_linear_scratch(products, depth) + 16) / 16 * 64);
    float *bias = random_floats(columns), *residual = random_floats(rows * columns);
    float *y = malloc((size_t)(rows * columns) * sizeof *y), *expected = malloc((size_t)columns * sizeof *expected);
    uint16_t *halves = calloc((size_t)(PLAN_ROW_BLOCK * depth), sizeof *halves);
    uint16_t *rounded = malloc((size_t)columns * sizeof *rounded), *found = malloc((size_t)(rows * columns) * 2);
    bool bf16 = products->bf16;
    products->vector->to_bf16(rows * depth, x, halves);
    struct product_tile tile = {
        .weight = weight,
        .x = products_linear_rows(products, weight, rows, bf16 ? ELEMENT_BF16 : ELEMENT_F32,
                                  bf16 ? (const void *)halves : x, scratch),
        .finish = {.rows = rows,
                   .columns = columns,
                   .bias = bias,
                   .activation = {.kind = ACTIVATION_RELU},
                   .residual = residual,
                   .residual_stride = columns,
                   .y = y,
                   .y_stride = columns},
    };
    for (; tile.panel * PRODUCTS_PANEL < columns; tile.panel++)
        assert_int_equal(products_linear_tile(products, &tile, scratch, 0), 0);
    tile.finish.y = found;
    tile.finish.y_element = ELEMENT_BF16;
    for (tile.panel = 0; tile.panel * PRODUCTS_PANEL < columns; tile.panel++)
        assert_int_equal(products_linear_tile(products, &tile, scratch, 0), 0);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++)
            expected[c] = fmaxf(product[r * columns + c] + bias[c], 0) + residual[r * columns + c];
        assert_memory_equal(y + r * columns, expected, (size_t)columns * sizeof *y);
        products->vector->to_bf16(columns, expected, rounded);
        assert_memory_equal(found + r * columns, rounded, (size_t)columns * sizeof *rounded);
    }
    free(scratch);
    free(bias);
    free(residual);
    free(y);
    free(expected);
    free(halves);
    free(rounded);
    free(found);
}

/* The error of each term is proportional to the term, and these errors are nearly independent. The error of the sums is
 * therefore measured relative to the root of the sum of all squared terms, which do not cancel. */
static void expect_near_sums(int64_t rows, int64_t columns, int64_t depth, const float *x, const float *w,
                             const float *y, double tolerance)
{
    double errors = 0, squares = 0;
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t c = 0; c < columns; c++) {
            double sum = 0;
            for (int64_t i = 0; i < depth; i++) {
                double term = (double)x[r * depth + i] * (double)w[c * depth + i];
                sum += term;
                squares += term * term;
            }
            errors += (y[r * columns + c] - sum) * (y[r * columns + c] - sum);
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
    assert_int_equal(products_take_weight(products, columns, depth, copy, true, &weight, &error), 0);
    assert_true(products_weight_bytes(weight) >= (size_t)(columns * depth) * (products->bf16 ? 2 : 4));
    multiply(products, weight, PLAN_ROW_BLOCK, columns, depth, x, y, 0);
    expect_near_sums(PLAN_ROW_BLOCK, columns, depth, x, w, y, tolerance);
    static const int64_t few[] = {1, 2, 4, 7, 8}; /* oneDNN has special kernels for a few rows */
    for (int i = 0; i < 12 && products->batch_invariant; i++) {
        int64_t rows = i < (int)(sizeof few / sizeof *few) ? few[i] : random_size(1, PLAN_ROW_BLOCK);
        int64_t first = random_size(0, PLAN_ROW_BLOCK - rows);
        multiply(products, weight, rows, columns, depth, x + first * depth, some, 1);
        assert_memory_equal(some, y + first * columns, (size_t)(rows * columns) * sizeof *some);
    }
    if (products->batch_invariant)
        check_what_follows(products, weight, random_size(1, PLAN_ROW_BLOCK), columns, depth, x, y);
    products_free_weight(products, weight);
    free(x);
    free(w);
    free(y);
    free(some);
}

static void check_library(enum product_library library, bool bf16, double tolerance)
{
    static const int64_t edges[][2] = {{1, 1}, {1, 512}, {257, 3}, {256, 64}, {64, 256}, {513, 2048}, {512, 512}};
    struct products products;
    open_products(library, bf16, &products);
    print_message("# %s\n", products.description);
    for (size_t i = 0; i < sizeof edges / sizeof *edges; i++)
        check_shape(&products, edges[i][0], edges[i][1], tolerance);
    for (int i = 0; i < SHAPES; i++)
        check_shape(&products, random_size(1, 600), random_size(1, i % 8 ? 300 : 3000), tolerance);
    products_close(&products);
}

static void openblas_products_agree_with_the_reference(void **state)
{
    (void)state;
    check_library(LIBRARY_OPENBLAS, false, 1e-6);
}

static void onednn_products_agree_with_the_reference(void **state)
{
    (void)state;
    check_library(LIBRARY_ONEDNN, false, 1e-6);
}

static void onednn_bf16_products_agree_with_the_reference(void **state) /* a number in bf16 has 8 significant bits */
{
    (void)state;
    check_library(LIBRARY_ONEDNN, true, 5e-3);
}

static void own_bf16_products_agree_with_the_reference(void **state)
{
    (void)state;
    check_library(LIBRARY_AUTO, true, 5e-3);
}

/* ---- oneDNN fails for a weight. These tests run in a child process, which may not create executable code ---- */

enum { TOLD = 42, WITHOUT_RULE = 77 }; /* exit statuses that differ from those of failed tests */

/* Forbids new code, so that oneDNN cannot pack a weight of a new shape. Tests that other code multiplies the weight,
 * unless the library was requested by name. Returns the exit status. */
static int take_without_code(enum product_library library, bool bf16, double tolerance)
{
    enum { COLUMNS = 300, DEPTH = 77 };
    struct products products;
    struct product_weight *weight;
    struct error error;
    float *x = random_floats(PLAN_ROW_BLOCK * DEPTH), *w = random_floats(COLUMNS * DEPTH);
    float *y = calloc(PLAN_ROW_BLOCK * COLUMNS, sizeof *y);
    bool named = library == LIBRARY_ONEDNN;
    open_products(library, bf16, &products);
    if (!products.onednn || prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
        return WITHOUT_RULE;
    int status = products_take_weight(&products, COLUMNS, DEPTH, w, false, &weight, &error);
    assert_non_null(strstr(error.message, "oneDNN: packing a weight failed"));
    assert_int_equal(status, named ? -1 : 0);
    if (!named) {
        multiply(&products, weight, PLAN_ROW_BLOCK, COLUMNS, DEPTH, x, y, 0);
        expect_near_sums(PLAN_ROW_BLOCK, COLUMNS, DEPTH, x, w, y, tolerance);
        products_free_weight(&products, weight);
    }
    products_close(&products);
    free(x);
    free(w);
    free(y);
    return TOLD;
}

static void expect_without_code(enum product_library library, bool bf16, double tolerance)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(take_without_code(
            library, bf16, tolerance)); /* if an assertion fails, cmocka continues, and exits with another status */
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == WITHOUT_RULE)
        skip();
    assert_int_equal(WEXITSTATUS(status), TOLD);
}

static void openblas_replaces_onednn_without_generated_code(void **state)
{
    (void)state;
    expect_without_code(LIBRARY_AUTO, false, 1e-6);
}

static void own_tiles_replace_onednn_without_generated_code(void **state) /* runs on processors with AMX */
{
    (void)state;
    if (!cpu_has_bf16())
        skip();
    expect_without_code(LIBRARY_AUTO, true, 5e-3);
}

static void onednn_by_name_has_no_substitute(void **state)
{
    (void)state;
    enum instruction_set set;
    struct error error;
    if (!has_onednn() || instruction_set_choose(SET_AUTO, &set, &error) != 0 || set != SET_AVX512)
        skip();
    expect_without_code(LIBRARY_ONEDNN, false, 1e-6);
}

/* Compares Eᵀ x with sums in double precision, for some features and some positions of E. x is first float, then
 * bf16. */
static void check_projection(const struct products *products, int64_t groups, int64_t n, int64_t k, bool transposed)
{
    struct product_weight *weight;
    struct error error;
    int64_t rows = random_size(1, n), columns = random_size(1, VECTOR_PANEL), stride = columns + random_size(0, 5);
    int64_t first_k = random_size(0, groups * k - 1), some = random_size(1, groups * k - first_k);
    int64_t first = random_size(0, (n - rows) / 2) * 2;
    float *e = random_floats(groups * k * n), *x = random_floats(rows * stride);
    uint16_t *halves = malloc((size_t)(rows * stride) * sizeof *halves);
    float *scratch = aligned_alloc(64, (size_t)(products_project_scratch(products, some) + 16) / 16 * 64);
    assert_int_equal(products_take_projection(products, groups, n, k, transposed, e, &weight, &error), 0);
    assert_true(products_weight_bytes(weight) >= (size_t)(groups * k * n) * 2);
    products->vector->to_bf16(rows * stride, x, halves);
    struct product_projection projection = {
        .weight = weight,
        .first_k = first_k,
        .k = some,
        .first = first,
        .rows = rows,
        .columns = columns,
        .x = x,
        .x_stride = stride,
    };
    float *y = malloc((size_t)(some * columns) * sizeof *y);
    double errors = 0, squares = 0;
    const float *found = products_project(products, &projection, scratch);
    for (int64_t j = 0; j < some; j++) {
        memcpy(y + j * columns, found + j * VECTOR_PANEL, (size_t)columns * sizeof *y);
        for (int64_t c = 0; c < columns; c++) {
            double sum = 0;
            for (int64_t r = 0; r < rows; r++) {
                int64_t feature = first_k + j, position = first + r;
                int64_t place = transposed ? feature * n + position : (feature / k * n + position) * k + feature % k;
                double term = (double)e[place] * (double)x[r * stride + c];
                sum += term;
                squares += term * term;
            }
            errors += (y[j * columns + c] - sum) * (y[j * columns + c] - sum);
        }
    }
    assert_true(sqrt(errors) <= 5e-3 * sqrt(squares));
    projection.x = halves;
    projection.x_element = ELEMENT_BF16;
    found = products_project(products, &projection, scratch);
    for (int64_t j = 0; j < some; j++)
        assert_memory_equal(found + j * VECTOR_PANEL, y + j * columns, (size_t)columns * sizeof *y);
    products_free_weight(products, weight);
    free(e);
    free(x);
    free(y);
    free(halves);
    free(scratch);
}

static void bf16_projections_agree_with_the_reference(void **state)
{
    (void)state;
    struct products products;
    open_products(LIBRARY_AUTO, true, &products);
    for (int i = 0; i < 2 * SHAPES; i++)
        check_projection(&products, random_size(1, 3), random_size(1, i % 8 ? 90 : 1300), random_size(1, 40), i % 2);
    products_close(&products);
}

/* The result must not depend on the rows of E behind the item's last position. */
static void positions_beyond_the_item_do_not_matter(void **state)
{
    (void)state;
    enum { N = 6, ROWS = 3 };
    struct products products;
    struct product_weight *weight;
    struct error error;
    float e[N] = {1, 2, 3, NAN, INFINITY, NAN}, x[ROWS] = {1, 1, 1};
    open_products(LIBRARY_AUTO, true, &products);
    float *scratch = aligned_alloc(64, (size_t)(products_project_scratch(&products, 1) + 16) / 16 * 64);
    assert_int_equal(products_take_projection(&products, 1, N, 1, true, e, &weight, &error), 0);
    const float *found = products_project(
        &products,
        &(struct product_projection){.weight = weight, .k = 1, .rows = ROWS, .columns = 1, .x = x, .x_stride = 1},
        scratch);
    assert_true(found[0] == 6);
    products_free_weight(&products, weight);
    products_close(&products);
    free(scratch);
}

static void numbers_become_the_nearest_bf16(void **state)
{
    (void)state;
    static const struct {
        float from;
        uint16_t to;
    } numbers[] = {
        {1.0f, 0x3f80},        {-0.0f, 0x8000},       {1.00390625f, 0x3f80}, /* exactly half way: rounds to even */
        {1.01171875f, 0x3f82}, {1.00390637f, 0x3f81}, {3.4e38f, 0x7f80},     /* beyond the largest number: infinity */
        {INFINITY, 0x7f80},    {-INFINITY, 0xff80},   {1e-40f, 0x0001},
    };
    for (int set = SET_AVX512; set <= SET_COUNT; set++) {
        bool bf16 = set == SET_COUNT;
        const struct vector_functions *vector =
            bf16 ? vector_functions_of_bf16() : vector_functions_of((enum instruction_set)set);
        enum instruction_set chosen;
        struct error error;
        uint16_t result;
        if (!vector || (bf16 && !cpu_has_bf16()) ||
            instruction_set_choose(bf16 ? SET_AVX512 : (enum instruction_set)set, &chosen, &error) != 0)
            continue;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            /* The instruction of AVX512_BF16 flushes subnormal numbers to zero. */
            bool flushed = bf16 && fabsf(numbers[i].from) < FLT_MIN && numbers[i].from != 0;
            vector->to_bf16(1, &numbers[i].from, &result);
            assert_int_equal(result, flushed ? 0 : numbers[i].to);
        }
        vector->to_bf16(1, &(float){NAN}, &result);
        assert_true((result & 0x7fff) > 0x7f80);
    }
}

/* Each test begins with the same seed, so its numbers do not depend on other tests. */
static int seed_test(void **state)
{
    (void)state;
    const char *given = getenv("SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 20261120;
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    return 0;
}

#define SEEDED(test) cmocka_unit_test_setup(test, seed_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SEEDED(openblas_products_agree_with_the_reference),
        SEEDED(onednn_products_agree_with_the_reference),
        SEEDED(onednn_bf16_products_agree_with_the_reference),
        SEEDED(own_bf16_products_agree_with_the_reference),
        SEEDED(openblas_replaces_onednn_without_generated_code),
        SEEDED(own_tiles_replace_onednn_without_generated_code),
        SEEDED(onednn_by_name_has_no_substitute),
        SEEDED(bf16_projections_agree_with_the_reference),
        SEEDED(positions_beyond_the_item_do_not_matter),
        SEEDED(numbers_become_the_nearest_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
