#include "engine/plan/shared_rows.h"

/* The source of an axis: the input that gives the number of its rows. PLAN_NONE if there is none. */
static int source_of(const struct plan *plan, int axis)
{
    const struct plan_axis *rows = &plan->axes[axis];
    if (rows->kind == AXIS_PADDED)
        return source_of(plan, rows->padded.of);
    return rows->kind == AXIS_INPUT ? rows->input : PLAN_NONE;
}

/* Whether the source of this operand may differ from the source of the step's result, as for keys and values. */
static bool reads_elsewhere(const struct plan_step *step, int value)
{
    if (step->operation != OP_ATTEND && step->operation != OP_LINEAR_ATTEND)
        return false;
    bool mask_of_keys = step->operation == OP_LINEAR_ATTEND && value == step->z;
    return value != step->x && (value == step->keys || value == step->values || mask_of_keys);
}

static unsigned bit_of(const struct plan *plan, int value)
{
    int source = value == PLAN_NONE ? PLAN_NONE : source_of(plan, plan->values[value].axis);
    return source == PLAN_NONE ? 0 : 1u << source;
}

/* The inputs whose rows items cannot share because of this step. Bit i stands for input i. */
static unsigned forbidden_by(const struct plan *plan, const struct plan_step *step)
{
    const int values[] = {step->x, step->z, step->keys, step->values};
    /* A kernel finds the row of a value by the row of its key. So both must have the same source. */
    if (step->keys != PLAN_NONE && bit_of(plan, step->keys) != bit_of(plan, step->values))
        return bit_of(plan, step->keys) | bit_of(plan, step->values) | bit_of(plan, step->x);
    int own = step->y == PLAN_NONE ? PLAN_NONE : source_of(plan, plan->values[step->y].axis);
    bool masked = step->operation == OP_ATTEND && step->attend.mask != PLAN_NONE;
    unsigned forbidden = masked && own != PLAN_NONE ? 1u << own : 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        if (values[i] == PLAN_NONE)
            continue;
        int source = source_of(plan, plan->values[values[i]].axis);
        if (source == own || (own == PLAN_NONE && reads_elsewhere(step, values[i])))
            continue;
        if (source != PLAN_NONE && !reads_elsewhere(step, values[i]))
            forbidden |= 1u << source;
        if (own != PLAN_NONE && source == PLAN_NONE)
            forbidden |= 1u << own;
    }
    return forbidden;
}

/* The source of the output's axis. */
static int source_of_output(const struct plan *plan)
{
    const struct plan_axis *hidden = &plan->axes[plan->hidden_axis];
    return source_of(plan, hidden->kind == AXIS_WANTED ? hidden->wanted.of : plan->hidden_axis);
}

void plan_mark_shared_axes(struct plan *plan)
{
    unsigned forbidden = 0;
    if (plan->hidden_axis == PLAN_NONE || plan->n_nodes > 0)
        return;
    if (source_of_output(plan) != PLAN_NONE)
        forbidden |= 1u << source_of_output(plan);
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].input.layout != LAYOUT_SEQUENCE)
            forbidden |= 1u << i;
    for (int i = 0; i < plan->n_steps; i++)
        forbidden |= forbidden_by(plan, &plan->steps[i]);
    for (int i = 0; i < plan->n_axes; i++) {
        int source = source_of(plan, i);
        plan->axes[i].shared = source != PLAN_NONE && !(forbidden >> source & 1);
    }
}

bool plan_has_same_rows(const struct plan *plan, int axis, const struct engine_item *a, const struct engine_item *b)
{
    int source = source_of(plan, axis);
    if (a->slot > 0 || b->slot > 0 || a->n_extras > 0 || b->n_extras > 0 || !a->inputs[source].data)
        return false;
    for (int i = 0; i < plan->n_inputs; i++) {
        int value = plan->inputs[i].value;
        bool counts = value != PLAN_NONE && source_of(plan, plan->values[value].axis) == source;
        if (counts && (a->inputs[i].data != b->inputs[i].data || a->inputs[i].length != b->inputs[i].length))
            return false;
    }
    return true;
}
