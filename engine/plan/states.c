#include "engine/plan/states.h"

#define MAX_FLOATS (INT64_C(1) << 40) /* limit for the floats that one step keeps */

/* a * b, or STATE_OF_ALL_ROWS if the product is too large. `b` comes from config.json, and may be any number. */
static int64_t bounded(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) || product > MAX_FLOATS ? STATE_OF_ALL_ROWS : product;
}

int64_t state_of_nothing(const struct plan *plan, const struct plan_step *step)
{
    (void)plan, (void)step;
    return 0;
}

int64_t state_of_shift(const struct plan *plan, const struct plan_step *step)
{
    if (step->shift_tokens.count != 2) /* with 3 segments, one segment comes from the next row */
        return STATE_OF_ALL_ROWS;
    return plan->values[step->x].columns / step->shift_tokens.count;
}

int64_t state_of_attention(const struct plan *plan, const struct plan_step *step)
{
    const struct plan_value *keys = &plan->values[step->keys], *values = &plan->values[step->values];
    int64_t rows = plan_constant_rows(plan, keys->axis), columns = keys->columns + values->columns;
    return rows == 0 || step->attend.causal || step->attend.mask != PLAN_NONE ? STATE_OF_ALL_ROWS
                                                                              : bounded(columns, rows);
}

int64_t state_of_linear_attention(const struct plan *plan, const struct plan_step *step)
{
    int64_t heads = step->linear_attend.heads, d = step->linear_attend.dim_head, e = step->linear_attend.dim_value;
    bool own_keys = plan->values[step->x].axis == plan->values[step->keys].axis;
    if (!own_keys && !step->linear_attend.causal)
        return heads * d * e;
    if (!own_keys || !step->linear_attend.causal)
        return STATE_OF_ALL_ROWS;
    int64_t sums = (step->linear_attend.bucket > 1 ? 2 : 1) * (d * e + d);
    return bounded(heads * sums, step->linear_attend.fold);
}

int64_t state_of_local_attention(const struct plan *plan, const struct plan_step *step)
{
    (void)plan; /* keys and x are rows of the same sequence */
    if (!step->local_attend.causal)
        return STATE_OF_ALL_ROWS;
    return bounded(4 * step->local_attend.heads * step->local_attend.dim_head, step->local_attend.window);
}
