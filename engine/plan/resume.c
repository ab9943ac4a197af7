/* resume: finds out whether the rows of a sequence may come in several batches. Then a new row of a long sequence costs
 * as much as a new row of a short one.
 *
 * All steps on the sequence's rows must be causal, and must keep what later rows need (states.h). Other steps compute,
 * for example, the rows of a context. They run in the batch that contains their input. They must not read the sequence,
 * because its later rows would change their result. */
#include "engine/plan/operations.h"
#include "engine/plan/passes.h"
#include "engine/plan/states.h"

/* In floats. A cache line has 16 floats, so the data of two steps, or of two slots, share no cache line. */
#define ALIGNMENT 16

/* The axis of a sequence whose rows could come in several batches, or PLAN_NONE. */
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

/* Whether the rows of the axis are the rows of the sequence, or some of them. The function compares the inputs of the
 * axes, because the rows with padding and the rows without padding are on two axes of the same input. */
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

/* The number of floats that the step keeps in a slot, or STATE_OF_ALL_ROWS. */
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
    plan->state_floats = ALIGNMENT; /* so that a slot is not empty if no step keeps anything */
    for (int i = 0; plan->resumed_axis != PLAN_NONE && i < plan->n_steps; i++) {
        int64_t floats = state_of(plan, &plan->steps[i], plan->resumed_axis);
        if (floats == STATE_OF_ALL_ROWS && plan->unresumed == PLAN_NONE)
            plan->unresumed = i;
        plan->steps[i].state = floats > 0 ? plan->state_floats : PLAN_NONE;
        if (floats > 0)
            plan->state_floats += (floats + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    bool padded = plan->resumed_axis != PLAN_NONE && plan->axes[plan->resumed_axis].input_padding.rows != 0;
    plan->resumes = plan->resumed_axis != PLAN_NONE && !padded && plan->unresumed == PLAN_NONE;
    plan->causal |= plan->resumes;
    plan->n_slots = plan->resumes ? n_slots : 0;
}
