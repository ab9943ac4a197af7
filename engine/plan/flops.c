/* How much a step computes: for --explain, and for choosing how a batch runs. */
#include "engine/plan/plan.h"

int64_t plan_step_flops(const struct plan *plan, const struct plan_step *step, int64_t rows)
{
    const struct plan_value *x = &plan->values[step->x];
    int64_t x_rows = plan_value_rows(plan, step->x, rows, 1), elements = x_rows * x->columns;
    if (step->only.axis != PLAN_NONE && (rows < step->only.least || rows > step->only.most))
        return 0;
    switch (step->operation) {
    case OP_LINEAR:
        return 2 * x_rows * x->columns * plan->weights[step->weight].rows;
    case OP_FEED_FORWARD: {
        const struct plan_weight *first = &plan->weights[step->weight], *second = &plan->weights[step->second_weight];
        int64_t gate = step->gated ? (step->activation == ACTIVATION_GELU ? 31 : 2) * second->columns : 0;
        return x_rows * (2 * first->rows * first->columns + gate + 2 * second->rows * second->columns);
    }
    case OP_GIVE_OUTPUT:
        return step->weight == PLAN_NONE ? 0 : 2 * x_rows * x->columns * plan->weights[step->weight].rows;
    case OP_PROJECT_SEQUENCE:
        return 2 * elements * plan_value_rows(plan, step->y, rows, 1);
    case OP_PROJECT_CALL:
        return 2 * elements * plan->weights[step->weight].rows;
    case OP_ATTEND_CALL: /* a position sees the keys of its own sequence */
        return 4 * elements * plan->axes[plan->values[step->keys].axis].k;
    case OP_ATTEND:
        return 2 * (elements + x_rows * plan->values[step->y].columns) * plan_value_rows(plan, step->keys, rows, 1);
    case OP_LAYER_NORM:
        return 8 * elements;
    case OP_ACTIVATE:
        return step->activation == ACTIVATION_GELU ? 30 * elements : elements;
    case OP_CONVOLVE_SEQUENCE:
        return 2 * plan_value_rows(plan, step->y, rows, 1) * x->columns * step->stride * (x->columns / step->groups);
    case OP_ADD_SINUSOIDS:
        return 20 * elements;
    case OP_ROTATE:
        return 3 * elements;
    case OP_LINEAR_ATTEND: /* a product with V and one with the queries */
        return 2 * (x_rows + plan_value_rows(plan, step->keys, rows, 1)) * step->heads * step->dim_head *
               step->dim_value;
    case OP_CONVOLVE_IMAGE:
        return 2 * plan_value_rows(plan, step->y, rows, 1) * plan->weights[step->weight].rows *
               plan->weights[step->weight].columns;
    case OP_LOCAL_ATTEND:
        return 4 * x_rows * step->heads * step->dim_head * step->window * (step->causal ? 2 : 3);
    case OP_RETRIEVE: /* scores of all keys, then the best values of each head */
        return 2 * x_rows *
               (plan->weights[step->bias].rows * plan->weights[step->bias].columns +
                step->heads * PLAN_BEST_KEYS * plan->weights[step->weight].columns);
    case OP_GATE:
        return (step->activation == ACTIVATION_GELU ? 31 : 2) * elements / 2;
    case OP_ADD_POSITIONS:
    case OP_ADD:
    case OP_GIVE_POOLED:
        return elements;
    case OP_EMBED:
    case OP_MASK_ROWS:
    case OP_SHIFT_TOKENS:
    case OP_CONCATENATE:
    case OP_APPEND_ROWS:
    case OP_GIVE_IMAGE:
    case OP_CUT_PADDING:
    case OP_GATHER_ROWS:
    case OP_GIVE_HIDDEN:
    case OP_COUNT:
        break;
    }
    return 0;
}
