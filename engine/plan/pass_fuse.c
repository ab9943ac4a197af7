/* pass_fuse: merges activations and additions into the linear step directly before them.
 *
 *     y = f(x Wᵀ + b) + z      f is the activation. z, the residual, is the other operand of the addition
 *
 * The linear step then applies both to its result, while the result is in the cache. */
#include "engine/plan/builder.h"
#include "engine/plan/passes.h"

/* Returns the linear step directly before step `i`, which writes `value`. NULL if another step also reads `value`, or
 * if the linear step already adds a residual. */
static struct plan_step *linear_before(struct plan *plan, int i, int value)
{
    struct plan_step *linear = i > 0 ? &plan->steps[i - 1] : NULL;
    if (!linear || linear->operation != OP_LINEAR || linear->y != value || linear->z != PLAN_NONE)
        return NULL;
    return plan_count_readers(plan, value) == 1 ? linear : NULL;
}

/* Records for --explain that `step` was merged into `linear`. The number of FLOPs stays the same, but the value
 * `spared` is no longer needed. */
static void decide(struct plan_builder *builder, const struct plan_step *linear, const char *step, int spared)
{
    const struct plan *plan = builder->plan;
    struct plan_flops flops = {.row = plan_step_flops(plan, linear, 2) - plan_step_flops(plan, linear, 1)};
    flops.item = plan_step_flops(plan, linear, 1) - flops.row;
    struct plan_decision decision = {.before = flops, .after = flops, .least_rows = 1};
    decision.spared[decision.n_spared++] = spared;
    plan_decide(builder, decision, "%s fused into the product with %s", step, plan->weights[linear->weight].name);
}

static bool fuse_activation(struct plan_builder *builder, int i)
{
    struct plan_step *step = &builder->plan->steps[i];
    struct plan_step *linear = linear_before(builder->plan, i, step->x);
    if (!linear || linear->linear.activation.kind != ACTIVATION_NONE || builder->plan->values[step->y].ids)
        return false;
    linear->linear.activation = step->activate.activation;
    linear->y = step->y;
    decide(builder, linear, activation_name(step->activate.activation.kind), step->x);
    return true;
}

static bool fuse_add(struct plan_builder *builder, int i)
{
    struct plan *plan = builder->plan;
    struct plan_step *step = &plan->steps[i];
    if (step->add.scale != 1.0f || step->x == step->z)
        return false;
    int residual = step->z;
    struct plan_step *linear = linear_before(plan, i, step->x);
    if (!linear) {
        linear = linear_before(plan, i, step->z);
        residual = step->x;
    }
    if (!linear)
        return false;
    int spared = linear->y;
    linear->z = residual;
    linear->y = step->y;
    decide(builder, linear, "the residual's addition", spared);
    return true;
}

void plan_fuse(struct plan_builder *builder)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < plan->n_steps && !builder->failed;) {
        enum operation operation = plan->steps[i].operation;
        bool fused =
            (operation == OP_ACTIVATE && fuse_activation(builder, i)) || (operation == OP_ADD && fuse_add(builder, i));
        if (!fused) {
            i++;
            continue;
        }
        plan_remove_step(plan, i);
    }
}
