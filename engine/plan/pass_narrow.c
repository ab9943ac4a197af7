/* pass_narrow: computes the last layers only for the requested rows. The pass selects steps at the end of the plan that
 * compute a row from the same row, and perhaps from the keys of the whole sequence. It moves these steps behind the
 * other steps. It puts the values that they write on a narrow axis, which has only the requested rows.
 *
 * Some steps also read neighbours of a row. The reach is the distance to the furthest neighbour that is needed. There
 * is one narrow axis for each reach r. This axis also has the r rows on either side of each requested row. A step reads
 * values of a longer axis through OP_GATHER_ROWS. Exceptions are keys, values, and the x of a step that reads
 * neighbours.
 *
 * The number of rows on a narrow axis depends on the batch. If an item requests its hidden state or a mean, the axis
 * has all rows of this item. */
#include "engine/plan/axes.h"
#include "engine/plan/operations.h"
#include "engine/plan/passes.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define ALL INT_MAX
#define UNREAD (-1)

/* The state of the pass. The reach of a value says which of its rows are needed. With reach r, these are the requested
 * rows and the r rows on either side of each. With reach ALL, every row is needed. With reach UNREAD, no row is needed.
 */
struct narrowing {
    struct plan_builder *builder;
    int *reach;              /* for each value: its reach */
    int *gathered;           /* for each value: its copy on the current narrow axis, or PLAN_NONE */
    bool *narrow;            /* for each original step: whether it is moved onto a narrow axis */
    int most_reach;          /* the largest reach of a narrow step */
    struct plan_step *steps; /* the steps before this pass */
    int n_steps, n_values;
};

static bool computes_rows_alone(const struct plan_step *step)
{
    return plan_operations[step->operation].rows == ROWS_ALONE && step->only.axis == PLAN_NONE;
}

/* Whether a row of y depends on neighbouring rows of x. */
static bool reads_neighbours(const struct plan_step *step)
{
    return plan_operations[step->operation].reach != NULL;
}

/* Raises the value's reach to `reach`. UNREAD is below every reach, and ALL is above. */
static void need(struct narrowing *n, int value, int reach)
{
    if (value != PLAN_NONE && n->reach[value] < reach)
        n->reach[value] = reach;
}

/* Finds the reach of every value. The loop goes from the last step to the first, so it visits the readers of a value
 * before its writer. When it visits a step, the reach of the step's y is final.
 *
 * A row of y reads only the same row of z, so z needs the reach of y. The step reads neighbours only of x. So `reach`
 * is increased after handling z, and before handling x. */
static void find_reaches(struct narrowing *n)
{
    const struct plan *plan = n->builder->plan;
    for (int v = 0; v < n->n_values; v++)
        n->reach[v] = UNREAD;
    for (int i = n->n_steps - 1; i >= 0; i--) {
        const struct plan_step *step = &n->steps[i];
        bool gives = step->y == PLAN_NONE;
        int reach = gives ? 0 : n->reach[step->y];
        n->narrow[i] = gives || (reach != UNREAD && reach != ALL && computes_rows_alone(step) &&
                                 plan->values[step->y].axis == plan->hidden_axis);
        if (!n->narrow[i])
            reach = n->reach[step->y] = ALL;
        else if (reach > n->most_reach)
            n->most_reach = reach;
        need(n, step->keys, ALL);
        need(n, step->values, ALL);
        need(n, step->z, reach);
        if (n->narrow[i] && reads_neighbours(step))
            reach += (int)plan_operations[step->operation].reach(step);
        need(n, step->x, reach);
    }
    for (int i = 0; i < plan->n_inputs; i++)
        need(n, plan->inputs[i].value, ALL);
}

static int step_reach(const struct narrowing *n, int step)
{
    return n->steps[step].y == PLAN_NONE ? 0 : n->reach[n->steps[step].y];
}

static void append(struct narrowing *n, struct plan_step step)
{
    plan_insert_step(n->builder, n->builder->plan->n_steps, step);
}

/* Returns the rows of the value on `axis`, which is the narrow axis of `reach`. If the value is on another axis,
 * appends a step that gathers its rows, but only once for each value and axis. */
static int gather(struct narrowing *n, int value, int reach, int axis)
{
    struct plan_builder *builder = n->builder;
    if (value == PLAN_NONE || builder->failed || n->reach[value] == reach)
        return value;
    if (n->gathered[value] != PLAN_NONE)
        return n->gathered[value];
    struct plan_value from = *plan_value_at(builder, value);
    struct plan_step step = plan_step_of(OP_GATHER_ROWS, value);
    step.y = plan_new_value(builder, axis, from.columns);
    if (builder->failed)
        return PLAN_NONE;
    builder->plan->values[step.y].ids = from.ids;
    append(n, step);
    n->gathered[value] = step.y;
    return step.y;
}

/* Appends a narrow step, with its operands and y on `axis`. A step that reads neighbours keeps its x, which is on the
 * longer axis that contains the neighbours. */
static void append_narrow(struct narrowing *n, int index, int reach, int axis)
{
    struct plan_step step = n->steps[index];
    if (!reads_neighbours(&step))
        step.x = gather(n, step.x, reach, axis);
    step.z = gather(n, step.z, reach, axis);
    if (step.y != PLAN_NONE && !n->builder->failed)
        n->builder->plan->values[step.y].axis = axis;
    append(n, step);
}

/* Appends the narrow steps of one reach, on a new axis. */
static void append_reach(struct narrowing *n, int reach, int whole)
{
    int axis = plan_wanted_axis(n->builder, whole, reach);
    if (axis == PLAN_NONE)
        return;
    for (int v = 0; v < n->n_values; v++)
        n->gathered[v] = PLAN_NONE;
    for (int i = 0; i < n->n_steps && !n->builder->failed; i++)
        if (n->narrow[i] && step_reach(n, i) == reach)
            append_narrow(n, i, reach, axis);
    if (reach == 0)
        n->builder->plan->hidden_axis = axis;
}

/* Records the FLOPs of the narrow steps for --explain. `before` counts every row of an item. `after` counts one
 * requested row and the neighbours that are needed for it. */
static void decide(struct narrowing *n)
{
    const struct plan *plan = n->builder->plan;
    struct plan_decision decision = {.least_rows = 1, .one_row = true};
    for (int i = 0; i < n->n_steps; i++) {
        if (!n->narrow[i])
            continue;
        int64_t flops = plan_step_flops(plan, &n->steps[i], 2) - plan_step_flops(plan, &n->steps[i], 1);
        decision.before.row += flops;
        decision.after.item += flops * (1 + 2 * step_reach(n, i));
    }
    plan_decide(n->builder, decision, "the last steps only on the requested rows, counted for one row");
}

/* Rebuilds the list of steps: first the other steps, then the narrow steps. A step reads values of the same reach or a
 * larger one, so the steps with the largest reach come first. */
static void narrow(struct narrowing *n)
{
    struct plan *plan = n->builder->plan;
    int whole = plan->hidden_axis;
    decide(n);
    plan->n_steps = 0;
    for (int i = 0; i < n->n_steps; i++)
        if (!n->narrow[i])
            append(n, n->steps[i]);
    for (int reach = n->most_reach; reach >= 0 && !n->builder->failed; reach--)
        append_reach(n, reach, whole);
}

static bool narrows_any(const struct narrowing *n)
{
    for (int i = 0; i < n->n_steps; i++)
        if (n->narrow[i] && n->steps[i].y != PLAN_NONE)
            return true;
    return false;
}

/* Whether items may request single rows of the axis. The result of a call or an image is requested as a whole. */
static bool has_wanted_rows(const struct plan *plan, const struct plan_axis *axis)
{
    for (int i = 0; i < plan->n_steps; i++)
        if (plan->steps[i].operation == OP_GIVE_IMAGE)
            return false;
    return axis->kind == AXIS_INPUT && plan->inputs[axis->input].input.layout == LAYOUT_SEQUENCE;
}

void plan_narrow(struct plan_builder *builder)
{
    struct plan *plan = builder->plan;
    if (builder->failed || plan->hidden_axis == PLAN_NONE || !has_wanted_rows(plan, &plan->axes[plan->hidden_axis]))
        return;
    struct narrowing n = {.builder = builder, .n_steps = plan->n_steps, .n_values = plan->n_values};
    n.reach = calloc((size_t)n.n_values + 1, sizeof *n.reach);
    n.gathered = calloc((size_t)n.n_values + 1, sizeof *n.gathered);
    n.narrow = calloc((size_t)n.n_steps + 1, sizeof *n.narrow);
    n.steps = calloc((size_t)n.n_steps + 1, sizeof *n.steps);
    if (n.reach && n.gathered && n.narrow && n.steps) {
        memcpy(n.steps, plan->steps, (size_t)n.n_steps * sizeof *n.steps);
        find_reaches(&n);
        if (narrows_any(&n))
            narrow(&n);
    } else {
        plan_fail(builder, "out of memory while building the plan");
    }
    free(n.reach);
    free(n.gathered);
    free(n.narrow);
    free(n.steps);
}
