/* linear: multiplies rows by a weight, tile by tile. All kernels that multiply rows by a weight use it. */
#ifndef ENGINE_CPU_LINEAR_H
#define ENGINE_CPU_LINEAR_H

#include "engine/cpu/run.h"

/* y[r] = activation(x[r] Wᵀ + b) + residual[r] for at most PLAN_ROW_BLOCK rows. W is (columns, depth). The rows of x, y
 * and residual follow one another without gaps. */
struct linear_block {
    int weight, bias; /* indices of weights in the plan. The bias may be PLAN_NONE */
    struct plan_activation activation;
    int64_t rows;
    const void *x;         /* (rows, depth). All PLAN_ROW_BLOCK rows must be readable memory */
    const float *residual; /* (rows, columns). NULL if there is no residual */
    void *y;               /* (rows, columns) */
    enum element x_element, y_element;
};

/* Computes the columns of panels first … end - 1 of y. A panel is PRODUCTS_PANEL columns. `scratch` belongs to the
 * calling thread and contains cpu_linear_block_scratch floats. */
void cpu_linear_block(const struct cpu_run *run, const struct linear_block *block, int64_t first, int64_t end,
                      float *scratch);
int64_t cpu_linear_panels(const struct cpu_run *run, int weight);
int64_t cpu_linear_block_scratch(const struct cpu_run *run, int weight); /* the result is 0 for PLAN_NONE */

cpu_kernel cpu_linear;
cpu_scratch cpu_linear_scratch; /* the scratch that cpu_linear_block needs for the step's weight */

#endif
