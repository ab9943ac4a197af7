/* linear: rows through a weight, tile by tile; for every kernel that has a product with a weight in it. */
#ifndef ENGINE_CPU_LINEAR_H
#define ENGINE_CPU_LINEAR_H

#include "engine/cpu/operations.h"

/* y[r] = activation(x[r] Wᵀ + b) + residual[r] for at most PLAN_ROW_BLOCK rows, all dense. */
struct linear_block {
    int weight, bias; /* of the plan; bias PLAN_NONE: none */
    enum activation activation;
    int64_t rows;
    const void *x;         /* (rows, depth); rows up to PLAN_ROW_BLOCK may be read */
    const float *residual; /* (rows, columns); NULL: none */
    void *y;               /* (rows, columns) */
    enum element x_element, y_element;
};

/* Columns of the panels first … end - 1. The scratch is the thread's, of cpu_linear_scratch floats. */
void cpu_linear_block(const struct cpu_run *run, const struct linear_block *block, int64_t first, int64_t end,
                      float *scratch);
int64_t cpu_linear_panels(const struct cpu_run *run, int weight);
int64_t cpu_linear_scratch(const struct products *products, const struct plan *plan, int weight);

void cpu_linear(const struct cpu_run *run, const struct plan_step *step); /* OP_LINEAR */

#endif
