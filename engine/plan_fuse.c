#include "engine/plan_passes.h"

/* The linear step just before `i` whose product nobody else reads, and that has no residual yet. */
static struct plan_step *linear_before(struct plan *plan, int i, int value)
{
    struct plan_step *linear = i > 0 ? &plan->steps[i - 1] : NULL;
    if (!linear || linear->operation != OP_LINEAR || linear->y != value || linear->z != PLAN_NONE)
        return NULL;
    return plan_count_readers(plan, value) == 1 ? linear : NULL;
}

static bool fuse_activation(struct plan *plan, int i)
{
    struct plan_step *step = &plan->steps[i];
    struct plan_step *linear = linear_before(plan, i, step->x);
    if (!linear || linear->activation != ACTIVATION_NONE)
        return false;
    linear->activation = step->activation;
    linear->y = step->y;
    return true;
}

static bool fuse_add(struct plan *plan, int i)
{
    struct plan_step *step = &plan->steps[i];
    if (step->scale != 1.0f || step->x == step->z)
        return false;
    int residual = step->z;
    struct plan_step *linear = linear_before(plan, i, step->x);
    if (!linear) {
        linear = linear_before(plan, i, step->z);
        residual = step->x;
    }
    if (!linear)
        return false;
    linear->z = residual;
    linear->y = step->y;
    return true;
}

void plan_fuse(struct plan *plan)
{
    for (int i = 0; i < plan->n_steps;) {
        enum operation operation = plan->steps[i].operation;
        bool fused =
            (operation == OP_ACTIVATE && fuse_activation(plan, i)) || (operation == OP_ADD && fuse_add(plan, i));
        if (!fused) {
            i++;
            continue;
        }
        plan_remove_step(plan, i);
    }
}
