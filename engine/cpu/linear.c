#include "engine/cpu/linear.h"

#define TASKS_A_THREAD 4 /* approximate number of tasks for each thread, if there are enough tiles */

int64_t cpu_linear_panels(const struct cpu_run *run, int weight)
{
    return parts_of(run->plan->weights[weight].rows, PRODUCTS_PANEL);
}

int64_t cpu_linear_block_scratch(const struct cpu_run *run, int weight)
{
    return weight == PLAN_NONE ? 0 : products_linear_scratch(run->products, run->plan->weights[weight].columns);
}

void cpu_linear_block(const struct cpu_run *run, const struct linear_block *block, int64_t first, int64_t end,
                      float *scratch)
{
    int64_t columns = run->plan->weights[block->weight].rows;
    const struct product_weight *weight = run->packed[block->weight];
    if (!weight)
        cpu_refuse_use(run, "it reads a weight in tiles of a linear product");
    struct product_tile tile = {
        .weight = weight,
        .x = products_linear_rows(run->products, weight, block->rows, block->x_element, block->x, scratch),
        .finish =
            {
                .rows = block->rows,
                .columns = columns,
                .bias = weight_of(run, block->bias),
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

/* A task is a block of rows with all panels. If there are too few such tasks, a task is a block with some of the
 * panels. */
void cpu_linear(const struct cpu_run *run, const struct plan_step *step)
{
    const struct plan_weight *weight = &run->plan->weights[step->weight]; /* (columns, depth) */
    /* (rows, columns). NULL if there is no residual. */
    const float *residual = floats_of(run, step->z);
    int64_t rows = rows_of(run, step->x), depth = weight->columns, columns = weight->rows;
    int64_t panels = cpu_linear_panels(run, step->weight), blocks = parts_of(rows, PLAN_ROW_BLOCK);
    if (rows == 0 || !cpu_selects_rows(run, step, 0, rows))
        return;
    int64_t parts = least(panels, parts_of(run->threads * TASKS_A_THREAD, blocks)); /* number of parts of the panels */
    int64_t each = parts_of(panels, parts), tasks = blocks * parts_of(panels, each);
#pragma omp parallel for num_threads(threads_for(run, tasks)) schedule(dynamic)
    for (int64_t t = 0; t < tasks; t++) {
        int64_t row = t % blocks * PLAN_ROW_BLOCK, panel = t / blocks * each;
        if (!cpu_selects_rows(run, step, row, PLAN_ROW_BLOCK))
            continue;
        const struct linear_block block = {
            .weight = step->weight,
            .bias = step->bias,
            .activation = step->linear.activation,
            .rows = least(PLAN_ROW_BLOCK, rows - row),
            .x = elements_of(run, step->x, row * depth),
            .residual = residual ? residual + row * columns : NULL,
            .y = elements_of(run, step->y, row * columns),
            .x_element = run->elements[step->x],
            .y_element = run->elements[step->y],
        };
        cpu_linear_block(run, &block, panel, least(panel + each, panels), scratch_of(run));
    }
}

int64_t cpu_linear_scratch(const struct cpu_run *run, const struct plan_step *step)
{
    return cpu_linear_block_scratch(run, step->weight);
}
