/* plan_products: runs only the products of a plan, one after another, with the CPU engine's tiles and tasks. The
 * products are those of linear and feed-forward steps, and of projections along the sequence. Each product has the same
 * shape as in the plan, and runs as often as in the plan.
 *
 * The two products of attention are left out, because attention computes them in one loop with the softmax (vector.h).
 * Products of one shape share one weight. So this weight stays in faster caches than the weights of several layers
 * would. Operands have the engine's element types, so no operand is converted. */
#ifndef TESTS_BENCH_PLAN_PRODUCTS_H
#define TESTS_BENCH_PLAN_PRODUCTS_H

#include "engine/cpu/products.h"
#include "tests/unit/tensors.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PRODUCTS 32
#define TASKS_A_THREAD 4 /* number of tasks per thread, as in engine/cpu/linear.c */

/* A product: y (rows, columns) = x (rows, depth) wᵀ, or Eᵀ x with E (rows, depth) and x (rows, columns). */
struct lone_product {
    bool projection;
    int64_t rows, depth, columns, count;
    struct product_weight *weight;
    float *e; /* the matrix E of a projection, in float32 */
};

struct plan_products {
    struct products products;
    int threads;
    enum element element;
    struct lone_product list[MAX_PRODUCTS];
    int n;
    double flops;
    char *x;
    float *y, *scratch; /* buffers, one for each thread */
    int64_t y_floats, scratch_floats;
};

static int64_t lone_min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t lone_max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t lone_parts(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

static void count_product(struct plan_products *p, bool projection, int64_t rows, int64_t depth, int64_t columns,
                          int64_t count)
{
    int i = 0;
    while (i < p->n && (p->list[i].projection != projection || p->list[i].rows != rows || p->list[i].depth != depth ||
                        p->list[i].columns != columns))
        i++;
    if (i == MAX_PRODUCTS)
        abort();
    if (i == p->n)
        p->list[p->n++] = (struct lone_product){projection, rows, depth, columns, 0, NULL, NULL};
    p->list[i].count += count;
    p->flops += 2.0 * (double)rows * (double)depth * (double)columns * (double)count;
}

/* Lists the plan's products with their numbers of runs, for `batch` items of `length` rows each. */
static void count_products(struct plan_products *p, const struct plan *plan, int64_t length, int64_t batch)
{
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        int64_t columns = plan->values[step->x].columns, rows = plan_value_rows(plan, step->x, length) * batch;
        const struct plan_weight *weight = step->weight == PLAN_NONE ? NULL : &plan->weights[step->weight];
        if (plan_step_flops(plan, step, length) == 0)
            continue; /* this step does not run for items of this length */
        if (step->operation == OP_LINEAR || step->operation == OP_FEED_FORWARD)
            count_product(p, false, rows, columns, weight->rows, 1);
        if (step->operation == OP_FEED_FORWARD)
            count_product(p, false, rows, plan->weights[step->second_weight].columns,
                          plan->weights[step->second_weight].rows, 1);
        if (step->operation == OP_PROJECT_SEQUENCE)
            count_product(p, true, length, plan_value_rows(plan, step->y, length), columns, batch);
    }
}

static float *lone_floats(int64_t count)
{
    float *floats = aligned_alloc(64, (size_t)(count + 16) / 16 * 64);
    for (int64_t i = 0; i < count; i++)
        floats[i] = random_float();
    return floats;
}

static int take_weight(struct plan_products *p, struct lone_product *product, struct error *error)
{
    const struct products *products = &p->products;
    if (!product->projection)
        return products_take_weight(products, product->columns, product->depth,
                                    lone_floats(product->columns * product->depth), true, &product->weight, error);
    product->e = lone_floats(product->rows * product->depth);
    return !products->bf16 ? 0
                           : products_take_projection(products, 1, product->rows, product->depth, false, product->e,
                                                      &product->weight, error);
}

/* The caller must call plan_products_close, even after a failure. */
static int plan_products_open(struct plan_products *p, const struct plan *plan, bool bf16, int64_t length,
                              int64_t batch, struct error *error)
{
    enum instruction_set set;
    int64_t x_elements = 0;
    memset(p, 0, sizeof *p);
    p->threads = omp_get_num_procs();
    p->element = bf16 ? ELEMENT_BF16 : ELEMENT_F32;
    if (instruction_set_choose(SET_AUTO, &set, error) != 0 ||
        products_open(set, LIBRARY_AUTO, bf16, p->threads, &p->products, error) != 0)
        return -1;
    count_products(p, plan, length, batch);
    for (int i = 0; i < p->n; i++) {
        struct lone_product *product = &p->list[i];
        int64_t wide = product->projection ? product->columns : product->depth;
        x_elements = lone_max(x_elements, lone_parts(product->rows, PLAN_ROW_BLOCK) * PLAN_ROW_BLOCK * wide);
        p->y_floats = lone_max(p->y_floats, lone_max(PLAN_ROW_BLOCK, product->depth) * product->columns);
        p->scratch_floats =
            lone_max(p->scratch_floats, product->projection ? products_project_scratch(&p->products, product->depth)
                                                            : products_linear_scratch(&p->products, product->depth));
        if (take_weight(p, product, error) != 0)
            return -1;
    }
    float *x = lone_floats(x_elements);
    if (bf16)
        p->products.vector->to_bf16(x_elements, x, (uint16_t *)x); /* each element is read before it is overwritten */
    p->x = (char *)x;
    p->y_floats = lone_parts(p->y_floats, 16) * 16;
    p->scratch_floats = lone_parts(p->scratch_floats, 16) * 16;
    p->y = lone_floats(p->threads * p->y_floats);
    p->scratch = lone_floats(p->threads * p->scratch_floats);
    return 0;
}

static void plan_products_close(struct plan_products *p)
{
    for (int i = 0; i < p->n; i++) {
        products_free_weight(&p->products, p->list[i].weight);
        free(p->list[i].e);
    }
    free(p->x);
    free(p->y);
    free(p->scratch);
    products_close(&p->products);
}

/* Computes the rows from `row` on, at most PLAN_ROW_BLOCK, with the panels [first, end) of the weight. */
static void run_linear_task(const struct plan_products *p, const struct lone_product *product, int64_t row,
                            int64_t first, int64_t end)
{
    int thread = omp_get_thread_num();
    float *scratch = p->scratch + thread * p->scratch_floats;
    int64_t rows = lone_min(PLAN_ROW_BLOCK, product->rows - row);
    struct product_tile tile = {
        .weight = product->weight,
        .x = products_linear_rows(&p->products, product->weight, rows, p->element,
                                  p->x + row * product->depth * element_bytes(p->element), scratch),
        .finish = {.rows = rows,
                   .columns = product->columns,
                   .y = p->y + thread * p->y_floats,
                   .y_stride = product->columns,
                   .y_element = p->element},
    };
    for (tile.panel = first; tile.panel < end; tile.panel++)
        if (products_linear_tile(&p->products, &tile, scratch, thread) != 0)
            abort();
}

static void run_linear(const struct plan_products *p, const struct lone_product *product)
{
    int64_t panels = lone_parts(product->columns, PRODUCTS_PANEL), blocks = lone_parts(product->rows, PLAN_ROW_BLOCK);
    int64_t parts = lone_min(panels, lone_parts(p->threads * TASKS_A_THREAD, blocks));
    int64_t each = lone_parts(panels, parts), tasks = blocks * lone_parts(panels, each);
#pragma omp parallel for num_threads(p->threads) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++)
        run_linear_task(p, product, t % blocks * PLAN_ROW_BLOCK, t / blocks * each,
                        lone_min(t / blocks * each + each, panels));
}

/* Projects a panel of the columns of x from `column` on. Computes the rows [first, first + count) of the result. */
static void run_projection_task(const struct plan_products *p, const struct lone_product *product, int64_t column,
                                int64_t first, int64_t count)
{
    int thread = omp_get_thread_num();
    int64_t width = lone_min(VECTOR_PANEL, product->columns - column);
    const char *x = p->x + column * element_bytes(p->element);
    if (p->products.bf16)
        products_project(&p->products,
                         &(struct product_projection){.weight = product->weight,
                                                      .first_k = first,
                                                      .k = count,
                                                      .rows = product->rows,
                                                      .columns = width,
                                                      .x = x,
                                                      .x_stride = product->columns,
                                                      .x_element = p->element},
                         p->scratch + thread * p->scratch_floats);
    else
        products_multiply(&p->products, &(struct product){.m = count,
                                                          .n = width,
                                                          .k = product->rows,
                                                          .a = product->e + first,
                                                          .a_stride = product->depth,
                                                          .transpose_a = true,
                                                          .b = (const float *)x,
                                                          .b_stride = product->columns,
                                                          .c = p->y + thread * p->y_floats,
                                                          .c_stride = product->columns});
}

static void run_projection(const struct plan_products *p, const struct lone_product *product)
{
    int64_t tiles = lone_parts(product->columns, VECTOR_PANEL), k = product->depth;
    int64_t parts = p->products.bf16 ? lone_max(lone_parts(p->threads, tiles), lone_parts(k, 256)) : 1;
    int64_t each = lone_parts(k, parts);
#pragma omp parallel for num_threads(p->threads) schedule(dynamic)
    for (int64_t t = 0; t < tiles * parts; t++)
        run_projection_task(p, product, t / parts * VECTOR_PANEL, t % parts * each,
                            lone_min(each, k - t % parts * each));
}

/* Runs all products of the plan once. */
static void plan_products_run(const struct plan_products *p)
{
    for (int i = 0; i < p->n; i++)
        for (int64_t count = 0; count < p->list[i].count; count++)
            (p->list[i].projection ? run_projection : run_linear)(p, &p->list[i]);
}

#endif
