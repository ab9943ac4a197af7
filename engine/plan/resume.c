/* Whether a sequence may come in several batches, each with its next rows. Then a row of a long sequence costs as much
 * as a row of a short one.
 *
 * All steps on the sequence's rows must be causal, and must keep what later rows need: see states.h. Steps on other
 * axes, such as those of a context, run in the batch that gives their input. They may not depend on the sequence, whose
 * later rows would change their result. */
#include "engine/plan/operations.h"
#include "engine/plan/passes.h"
#include "engine/plan/states.h"

#define ALIGNMENT 16 /* floats: a cache line */

/* The axis of a sequence whose rows could come in several batches; PLAN_NONE: the plan has no such sequence. */
static int sequence_axis(const struct plan *plan)
{
    int axis = plan->hidden_axis;
    if (axis == PLAN_NONE || plan->vector || !plan->has_logits || plan_counts_axes(plan))
        return PLAN_NONE;
    if (plan->axes[axis].kind == AXIS_WANTED)
        axis = plan->axes[axis].wanted.of;
    const struct plan_axis *rows = &plan->axes[axis];
    bool sequence = rows->kind == AXIS_INPUT && plan->inputs[rows->input].input.layout == LAYOUT_SEQUENCE;
    return sequence ? axis : PLAN_NONE;
}

/* The rows of the sequence, or some of them. The rows without padding are other rows than those with it. */
static bool is_of_sequence(const struct plan *plan, int axis, int sequence)
{
    const struct plan_axis *rows = &plan->axes[axis];
    if (rows->kind == AXIS_WANTED)
        return is_of_sequence(plan, rows->wanted.of, sequence);
    return rows->kind == AXIS_INPUT && rows->input == plan->axes[sequence].input;
}

static bool reads_sequence(const struct plan *plan, const struct plan_step *step, int sequence)
{
    for (int i = 0; i < PLAN_READS; i++)
        if (step->reads[i] != PLAN_NONE && is_of_sequence(plan, plan->values[step->reads[i]].axis, sequence))
            return true;
    return false;
}

/* Floats that the step keeps, or STATE_OF_ALL_ROWS. */
static int64_t state_of(const struct plan *plan, const struct plan_step *step, int sequence)
{
    const struct plan_operation *operation = &plan_operations[step->operation];
    if (!reads_sequence(plan, step, sequence))
        return 0;
    if (step->y != PLAN_NONE && !is_of_sequence(plan, plan->values[step->y].axis, sequence))
        return STATE_OF_ALL_ROWS;
    if (operation->state)
        return operation->state(plan, step);
    return operation->rows == ROWS_ALONE && !operation->reach ? 0 : STATE_OF_ALL_ROWS;
}

void plan_resume(struct plan *plan, int64_t n_slots)
{
    plan->resumed_axis = sequence_axis(plan);
    plan->unresumed = PLAN_NONE;
    plan->state_floats = ALIGNMENT;
    for (int i = 0; plan->resumed_axis != PLAN_NONE && i < plan->n_steps; i++) {
        int64_t floats = state_of(plan, &plan->steps[i], plan->resumed_axis);
        if (floats == STATE_OF_ALL_ROWS && plan->unresumed == PLAN_NONE)
            plan->unresumed = i;
        plan->steps[i].state = floats > 0 ? plan->state_floats : PLAN_NONE;
        if (floats > 0)
            plan->state_floats += (floats + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    bool padded = plan->resumed_axis != PLAN_NONE && plan->axes[plan->resumed_axis].padded.rows != 0;
    plan->resumes = plan->resumed_axis != PLAN_NONE && !padded && plan->unresumed == PLAN_NONE;
    plan->causal |= plan->resumes;
    plan->n_slots = plan->resumes ? n_slots : 0;
}
