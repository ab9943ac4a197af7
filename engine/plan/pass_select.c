/* pass_select: computes steps for one row of each item, if a later step selects only this row. For example, a
 * classifier that reads the row of its class token needs one row of the last layer.
 *
 *     y = (f(x))[row]  becomes  y = f(x[row])        for steps f whose row depends only on the same row of x
 *
 * The moved steps are on an axis with one row for each item. This row has position 0 there, wherever it was in x. So
 * steps whose result depends on the position of a row are not moved. They compute all rows, and the row is selected
 * afterwards. Attention steps are not moved either, because items may request their softmax for all rows. */
#include "engine/plan/axes.h"
#include "engine/plan/operations.h"
#include "engine/plan/passes.h"
#include "engine/plan/sizes.h"

#include <stdlib.h>

/* The selection of a row by a step OP_ARRANGE. */
struct selected_row {
    int step;
    int x, y;  /* indices of the step's values */
    int first; /* index of a size: the number of the row among the item's rows of x */
};

/* Which rows of a value are needed: none, only the selected row, or all rows. */
enum need { UNREAD, ONE_ROW, ALL_ROWS };

struct selecting {
    struct plan_builder *builder;
    struct selected_row row;
    enum need *needs; /* for each value: which of its rows are needed */
    int *selected;    /* for each value with ALL_ROWS: the value that contains its selected row, or PLAN_NONE */
    int n_values;
};

static bool is_constant(const struct plan *plan, int size, int64_t expected)
{
    int64_t value;
    return plan_size_is_constant(plan, size, &value) && value == expected;
}

/* Whether the elements of the space are the columns of one row, in order. */
static bool visits_one_row(const struct plan *plan, const struct plan_space *space, int64_t columns)
{
    bool whole = columns == 1;
    for (int d = 0; d < space->rank; d++) {
        const struct plan_dimension *dimension = &space->dimensions[d];
        if (is_constant(plan, dimension->count, 1))
            continue;
        if (whole || !is_constant(plan, dimension->count, columns) || !is_constant(plan, dimension->x, 1) ||
            !is_constant(plan, dimension->y, 1))
            return false;
        whole = true;
    }
    return whole && is_constant(plan, space->y_first, 0);
}

/* Returns the step that writes the value, if there is exactly one. Otherwise PLAN_NONE. */
static int only_writer(const struct plan *plan, int value)
{
    int writer = plan_writer(plan, value);
    return writer == plan_last_writer(plan, value) ? writer : PLAN_NONE;
}

/* Whether step `index` copies exactly one row of x to y, and x has other rows. The offset of the row's first element
 * must be a multiple of the number of columns. */
static bool find_row(struct plan_builder *builder, int index, struct selected_row *row)
{
    const struct plan *plan = builder->plan;
    const struct plan_step *step = &plan->steps[index];
    if (step->operation != OP_ARRANGE || step->x == PLAN_NONE || only_writer(plan, step->y) != index)
        return false;
    const struct plan_value *x = &plan->values[step->x], *y = &plan->values[step->y];
    int64_t rows;
    *row = (struct selected_row){.step = index, .x = step->x, .y = step->y};
    return !x->ids && x->columns == y->columns && plan_rows_are_constant(plan, y->axis, &rows) && rows == 1 &&
           plan_constant_rows(plan, x->axis) != 1 && visits_one_row(plan, &plan->spaces[step->space], x->columns) &&
           plan_size_divides(builder, plan->spaces[step->space].x_first, plan_size_constant(builder, x->columns),
                             &row->first);
}

/* Whether the step can compute only the selected row. This requires, for example, that all its operands are on the axis
 * of the selection's x. */
static bool can_move(const struct selecting *s, int index)
{
    const struct plan *plan = s->builder->plan;
    const struct plan_step *step = &plan->steps[index];
    const struct plan_operation *operation = &plan_operations[step->operation];
    int axis = plan->values[s->row.x].axis;
    bool same_axis = step->x != PLAN_NONE && plan->values[step->x].axis == axis && !plan->values[step->x].ids &&
                     (step->z == PLAN_NONE || (plan->values[step->z].axis == axis && !plan->values[step->z].ids));
    return same_axis && index < s->row.step && operation->rows == ROWS_ALONE && !operation->reach &&
           !operation->position && step->only.axis == PLAN_NONE && step->keys == PLAN_NONE &&
           step->values == PLAN_NONE && !plan->values[step->y].ids && only_writer(plan, step->y) == index;
}

static void require_rows(struct selecting *s, int value, enum need need)
{
    if (value != PLAN_NONE && s->needs[value] < need)
        s->needs[value] = need;
}

/* Whether the step is moved, so that it computes only the selected row. find_needs must have visited all steps that
 * read y of this step. */
static bool moves(const struct selecting *s, int index)
{
    int y = s->builder->plan->steps[index].y;
    return y != PLAN_NONE && y < s->n_values && s->needs[y] == ONE_ROW;
}

/* Visits the steps from the last to the first, so that the readers of a value come before its writer. Afterwards the
 * values with ONE_ROW are those that moved steps write. */
static void find_needs(struct selecting *s)
{
    const struct plan *plan = s->builder->plan;
    for (int i = 0; i < plan->n_inputs; i++)
        require_rows(s, plan->inputs[i].value, ALL_ROWS);
    for (int i = plan->n_steps - 1; i >= 0; i--) {
        enum need reads = i == s->row.step || (moves(s, i) && can_move(s, i)) ? ONE_ROW : ALL_ROWS;
        if (reads == ALL_ROWS)
            require_rows(s, plan->steps[i].y, ALL_ROWS);
        for (int r = 0; r < PLAN_READS; r++)
            require_rows(s, plan->steps[i].reads[r], reads);
    }
}

/* A space that visits the `columns` columns of the selected row. */
static int row_space(struct selecting *s, int64_t columns)
{
    struct plan_builder *builder = s->builder;
    int zero = plan_size_constant(builder, 0), one = plan_size_constant(builder, 1),
        count = plan_size_constant(builder, columns);
    struct plan_space space = {
        .rank = 1,
        .dimensions = {{.count = count, .x = one, .z = zero, .keys = zero, .y = one}},
        .x_first = plan_size_multiply(builder, s->row.first, count),
        .z_first = zero,
        .keys_first = zero,
        .y_first = zero,
    };
    return plan_add_space(builder, &space);
}

/* Returns a value that contains only the selected row of an operand of step *index. At the first call for a value,
 * inserts a step that selects the row, and increases *index. The new step comes before the step that reads it. */
static int select_row(struct selecting *s, int value, int *index)
{
    struct plan_builder *builder = s->builder;
    if (value == PLAN_NONE || builder->failed || value >= s->n_values || s->needs[value] == ONE_ROW)
        return value;
    if (s->selected[value] != PLAN_NONE)
        return s->selected[value];
    const struct plan *plan = builder->plan;
    int64_t columns = plan->values[value].columns;
    struct plan_step step = plan_step_of(OP_ARRANGE, value);
    step.space = row_space(s, columns);
    step.y = plan_new_value(builder, plan->values[s->row.y].axis, columns);
    plan_insert_step(builder, *index, step);
    *index += 1;
    s->row.step += 1;
    return s->selected[value] = step.y;
}

/* Makes step *index compute only the selected row. select_row may insert steps before it. Then *index increases. */
static void move(struct selecting *s, int *index)
{
    struct plan *plan = s->builder->plan;
    int x = select_row(s, plan->steps[*index].x, index);
    int z = select_row(s, plan->steps[*index].z, index);
    if (s->builder->failed)
        return;
    struct plan_step *step = &plan->steps[*index];
    step->x = x;
    step->z = z;
    plan->values[step->y].axis = plan->values[s->row.y].axis;
}

/* Records the FLOPs of the moved products for --explain: `before` counts all rows, `after` counts one row. */
static void decide(const struct selecting *s)
{
    const struct plan *plan = s->builder->plan;
    struct plan_decision decision = {.least_rows = 1};
    int64_t rows = plan_constant_rows(plan, plan->values[s->row.x].axis);
    for (int i = 0; i < s->row.step; i++) {
        if (!moves(s, i) || plan->steps[i].operation != OP_LINEAR)
            continue;
        int64_t two = plan_step_flops(plan, &plan->steps[i], 2), one = plan_step_flops(plan, &plan->steps[i], 1);
        if (rows > 0) {
            decision.before.item += one;
            decision.after.item += one / rows;
        } else {
            decision.before.row += two - one;
            decision.after.item += two - one;
        }
    }
    plan_decide(s->builder, decision, "the last steps only on the selected row");
}

/* Replaces the steps that only the selection needs by steps for one row. The readers of the selection then read the
 * result of the last of these steps. */
static void rewrite(struct selecting *s)
{
    struct plan *plan = s->builder->plan;
    decide(s);
    for (int i = 0; i < s->row.step && !s->builder->failed; i++)
        if (moves(s, i))
            move(s, &i);
    if (s->builder->failed)
        return;
    plan_remove_step(plan, s->row.step);
    for (int i = s->row.step; i < plan->n_steps; i++)
        for (int r = 0; r < PLAN_READS; r++)
            if (plan->steps[i].reads[r] == s->row.y)
                plan->steps[i].reads[r] = s->row.x;
}

static void consider(struct plan_builder *builder, struct selected_row row)
{
    const struct plan *plan = builder->plan;
    struct selecting s = {.builder = builder, .row = row, .n_values = plan->n_values};
    s.needs = calloc((size_t)s.n_values + 1, sizeof *s.needs);
    s.selected = calloc((size_t)s.n_values + 1, sizeof *s.selected);
    if (s.needs && s.selected) {
        for (int v = 0; v < s.n_values; v++)
            s.selected[v] = PLAN_NONE;
        find_needs(&s);
        int writer = plan_writer(plan, row.x);
        if (writer != PLAN_NONE && moves(&s, writer))
            rewrite(&s);
    } else {
        plan_fail(builder, "out of memory while building the plan");
    }
    free(s.needs);
    free(s.selected);
}

void plan_select_rows(struct plan_builder *builder)
{
    struct selected_row row;
    for (int i = builder->plan->n_steps - 1; i >= 0 && !builder->failed; i--)
        if (find_row(builder, i, &row))
            consider(builder, row);
}
