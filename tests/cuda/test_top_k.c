/* The best values of a row on the CUDA backend, in the same order as on the CPU. Rows contain equal values, NaNs,
 * infinities and zeros of both signs. Few or many best values are requested. SEED chooses the random rows. */
#include "engine/cpu/top_k.h"
#include "tests/cuda/schedules.h"
#include "tests/unit/operation_bench.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { VALUES = 2500, ROWS = 9 };

/* Fills a row. `kind` chooses how many values are equal or special. A model's results contain few equal values, or many
 * if a mask is used. */
static void fill_row(int64_t kind, float *row)
{
    for (int64_t c = 0; c < VALUES; c++) {
        float x = random_float() * 4;
        row[c] = kind == 0   ? x
                 : kind == 1 ? roundf(x)
                 : kind == 2 ? 0.5f
                 : kind == 3 ? (float)c
                 : kind == 4 ? -(float)c
                 : kind == 5 ? (random_next() % 2 ? 0.0f : -0.0f)
                 : kind == 6 ? (random_next() % 50 ? x : NAN)
                 : kind == 7 ? (random_next() % 40 ? -INFINITY : x)
                             : (random_next() % 3 ? x
                                : x > 0           ? INFINITY
                                                  : NAN);
    }
}

static void open_model(struct bench *bench)
{
    struct plan_builder *builder = bench_begin(bench, NULL, 0);
    int x = plan_input_rows(builder, "x", VALUES, 40, PLAN_NONE);
    plan_give(builder, x, PLAN_NONE, PLAN_NONE, false);
    bench_place(bench);
}

/* Returns whether two values are equal. Two NaNs are equal. */
static bool is_same(float a, float b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Compares the item's best values with the best values of the whole rows. */
static void check_item(const struct engine_item *top, const float *full)
{
    static int32_t columns[VALUES];
    static float values[VALUES];
    for (int64_t row = 0; row < ROWS; row++) {
        top_k(VALUES, full + row * VALUES, top->top_k, columns, values);
        for (int64_t i = 0; i < top->top_k; i++) {
            int32_t found = top->top_columns[row * top->top_k + i];
            if (found != columns[i] || !is_same(top->top_values[row * top->top_k + i], values[i]))
                fail_msg("row %lld, %lld of %lld%s: found %g of column %d, expected %g of column %d", (long long)row,
                         (long long)i, (long long)top->top_k, top->softmax ? ", softmax" : "",
                         (double)top->top_values[row * top->top_k + i], (int)found, (double)values[i], (int)columns[i]);
        }
    }
}

/* Runs a batch of three items with different values of top_k. Each item must receive its own number of best values. */
static void check_together(struct bench *bench, const float *rows, const int64_t *counts, bool softmax)
{
    struct engine_item items[3];
    float *full = calloc((size_t)(ROWS * VALUES), sizeof *full);
    memset(items, 0, sizeof items);
    for (int i = 0; i < 3; i++) {
        items[i].inputs[0].data = rows;
        items[i].inputs[0].length = items[i].n_rows = ROWS;
        items[i].softmax = softmax;
        items[i].top_k = counts[i];
        items[i].top_values = calloc((size_t)(ROWS * counts[i] + 1), sizeof(float));
        items[i].top_columns = calloc((size_t)(ROWS * counts[i] + 1), sizeof(int32_t));
        if (counts[i] == 0)
            items[i].output = full;
    }
    bench_compute(bench, items, 3);
    for (int i = 0; i < 3; i++) {
        if (counts[i] > 0)
            check_item(&items[i], full);
        free(items[i].top_values);
        free(items[i].top_columns);
    }
    free(full);
}

static void largest_columns_equal_those_of_the_cpu(void **state)
{
    (void)state;
    static const int64_t counts[][3] = {{1, 0, 5},   {31, 32, 0},    {0, 33, 10},
                                        {100, 1, 0}, {0, 1024, 700}, {VALUES, 0, 2}};
    float *rows = calloc((size_t)(ROWS * VALUES), sizeof *rows);
    struct bench bench;
    for (int64_t row = 0; row < ROWS; row++)
        fill_row(row, rows + row * VALUES);
    open_model(&bench);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int softmax = 0; softmax < 2; softmax++)
            check_together(&bench, rows, counts[i], softmax);
    bench_end(&bench);
    free(rows);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(largest_columns_equal_those_of_the_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
    bench_options.device.kind = DEVICE_CUDA;
    uint64_t seed = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : 20261122;
    random_seed(seed);
    print_message("SEED=%llu\n", (unsigned long long)seed);
    return run_schedules(run_all);
}
