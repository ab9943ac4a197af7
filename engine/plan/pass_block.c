/* pass_block: joins two linear steps into one step OP_FEED_FORWARD, if only the second one reads the result of the
 * first. A gate may be between them. The new step computes both products for one block of rows at a time. The value
 * between the products is the widest value of a layer. In the new step, this value needs no place in the arena, and is
 * still in a core's cache when the second product reads it. */
#include "engine/plan/builder.h"
#include "engine/plan/passes.h"

static bool is_linear(const struct plan_step *step)
{
    return step->operation == OP_LINEAR && step->only.axis == PLAN_NONE;
}

/* The linear step whose product is read only by step `reader`. PLAN_NONE if there is none. */
static int first_linear(const struct plan *plan, int reader)
{
    int value = plan->steps[reader].x;
    int linear = plan_count_readers(plan, value) == 1 ? plan_writer(plan, value) : PLAN_NONE;
    return linear != PLAN_NONE && is_linear(&plan->steps[linear]) && plan->steps[linear].z == PLAN_NONE ? linear
                                                                                                        : PLAN_NONE;
}

/* The gate whose result is read only by step `reader`. PLAN_NONE if there is none. */
static int gate_before(const struct plan *plan, int reader)
{
    int value = plan->steps[reader].x;
    int gate = plan_count_readers(plan, value) == 1 ? plan_writer(plan, value) : PLAN_NONE;
    return gate != PLAN_NONE && plan->steps[gate].operation == OP_GATE ? gate : PLAN_NONE;
}

/* Joins step `second` with a linear step before it. Returns false if there is no such step. */
static bool join(struct plan_builder *builder, int second)
{
    struct plan *plan = builder->plan;
    int gate = gate_before(plan, second), first = first_linear(plan, gate == PLAN_NONE ? second : gate);
    if (first == PLAN_NONE || plan->steps[second].linear.activation.kind != ACTIVATION_NONE ||
        (gate != PLAN_NONE && plan->steps[first].linear.activation.kind != ACTIVATION_NONE))
        return false;
    const struct plan_step *inner = &plan->steps[first];
    struct plan_step joined = plan->steps[second];
    joined.operation = OP_FEED_FORWARD;
    joined.x = inner->x;
    joined.second_weight = joined.weight;
    joined.second_bias = joined.bias;
    joined.weight = inner->weight;
    joined.bias = inner->bias;
    joined.feed_forward.gated = gate != PLAN_NONE;
    joined.feed_forward.activation = gate == PLAN_NONE ? inner->linear.activation : plan->steps[gate].gate.activation;
    plan->steps[second] = joined;
    struct plan_flops flops = {.row = plan_step_flops(plan, &joined, 2) - plan_step_flops(plan, &joined, 1)};
    /* If every item has the same number of rows, plan_step_flops ignores its last argument. Then flops.row is 0, and
     * flops.item counts all rows. */
    flops.item = plan_step_flops(plan, &joined, 1) - flops.row;
    struct plan_decision decision = {.before = flops, .after = flops, .least_rows = 1};
    decision.spared[decision.n_spared++] = inner->y;
    if (gate != PLAN_NONE)
        decision.spared[decision.n_spared++] = plan->steps[gate].y;
    plan_decide(builder, decision, "products with %s and %s in blocks of rows", plan->weights[joined.weight].name,
                plan->weights[joined.second_weight].name);
    if (gate != PLAN_NONE)
        plan_remove_step(plan, gate);
    plan_remove_step(plan, first);
    return true;
}

void plan_block(struct plan_builder *builder)
{
    for (int i = 0; i < builder->plan->n_steps && !builder->failed; i++) {
        int n_steps = builder->plan->n_steps;
        if (is_linear(&builder->plan->steps[i]) && join(builder, i))
            i -= n_steps - builder->plan->n_steps; /* the removed steps precede step i */
    }
}
