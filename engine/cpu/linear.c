#include "engine/cpu/linear.h"

#include <omp.h>

#define TASKS_A_THREAD 4 /* at least, where there are so many tiles */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t tasks_for(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

int64_t cpu_linear_panels(const struct cpu_run *run, int weight)
{
    return tasks_for(run->plan->weights[weight].rows, PRODUCTS_PANEL);
}

int64_t cpu_linear_scratch(const struct products *products, const struct plan *plan, int weight)
{
    return products_linear_scratch(products, plan->weights[weight].columns);
}

void cpu_linear_block(const struct cpu_run *run, const struct linear_block *block, int64_t first, int64_t end,
                      float *scratch)
{
    int64_t columns = run->plan->weights[block->weight].rows, depth = run->plan->weights[block->weight].columns;
    struct product_tile tile = {
        .weight = run->packed[block->weight],
        .x = products_linear_rows(run->products, block->rows, depth, block->x_element, block->x, scratch),
        .finish =
            {
                .rows = block->rows,
                .columns = columns,
                .bias = block->bias == PLAN_NONE ? NULL : run->plan->weights[block->bias].data,
                .activation = block->activation,
                .residual = block->residual,
                .residual_stride = columns,
                .y_element = block->y_element,
                .y = block->y,
                .y_stride = columns,
            },
    };
    for (tile.panel = first; tile.panel < end; tile.panel++) {
        if (products_linear_tile(run->products, &tile, scratch, omp_get_thread_num()) != 0) {
            atomic_store(run->failed, true);
            return;
        }
    }
}

/* Tasks are blocks of rows, with all panels or, where that makes too few of them, some. */
void cpu_linear(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan *plan = run->plan;
    enum element x_element = run->elements[step->x], y_element = run->elements[step->y];
    const char *x = run->arena + plan->values[step->x].offset;
    const float *residual = step->z == PLAN_NONE ? NULL : (const float *)(run->arena + plan->values[step->z].offset);
    char *y = run->arena + plan->values[step->y].offset;
    int64_t rows = run->batch->layouts[plan->values[step->x].axis].starts[run->batch->n_items];
    int64_t depth = plan->weights[step->weight].columns, columns = plan->weights[step->weight].rows;
    int64_t panels = cpu_linear_panels(run, step->weight), blocks = tasks_for(rows, PLAN_ROW_BLOCK);
    if (rows == 0 || !cpu_selects_rows(run, step, 0, rows))
        return;
    int64_t parts = least(panels, tasks_for(run->threads * TASKS_A_THREAD, blocks)); /* of the panels */
    int64_t each = tasks_for(panels, parts), tasks = blocks * tasks_for(panels, each);
#pragma omp parallel for num_threads(tasks > 1 ? run->threads : 1) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t row = t % blocks * PLAN_ROW_BLOCK, panel = t / blocks * each;
        if (!cpu_selects_rows(run, step, row, PLAN_ROW_BLOCK))
            continue;
        const struct linear_block block = {
            .weight = step->weight,
            .bias = step->bias,
            .activation = step->activation,
            .rows = least(PLAN_ROW_BLOCK, rows - row),
            .x = x + row * depth * element_bytes(x_element),
            .residual = residual ? residual + row * columns : NULL,
            .y = y + row * columns * element_bytes(y_element),
            .x_element = x_element,
            .y_element = y_element,
        };
        cpu_linear_block(run, &block, panel, least(panel + each, panels),
                         run->scratch + omp_get_thread_num() * run->scratch_floats);
    }
}
