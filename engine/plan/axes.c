#include "engine/plan/axes.h"

int plan_ragged_axis(struct plan_builder *builder, int input)
{
    struct plan_axis *axis = plan_grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    axis->input = input;
    return builder->plan->n_axes - 1;
}

int plan_unpadded_axis(struct plan_builder *builder, int input)
{
    const struct plan *plan = builder->plan;
    for (int i = 0; i < plan->n_axes; i++)
        if (plan->axes[i].input == input && plan->axes[i].padded_rows == 0 && plan->axes[i].row_multiple == 0 &&
            plan->axes[i].n == 0 && plan->axes[i].window.size[0] == 0 && !plan->axes[i].joined)
            return i;
    return plan_ragged_axis(builder, input);
}

int plan_fixed_axis(struct plan_builder *builder, int64_t rows_per_item)
{
    struct plan *plan = builder->plan;
    for (int i = 0; i < plan->n_axes; i++)
        if (plan->axes[i].input == PLAN_NONE && plan->axes[i].rows_per_item == rows_per_item)
            return i;
    struct plan_axis *axis = plan_grow(builder, &plan->axes, &plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis = (struct plan_axis){.input = PLAN_NONE, .rows_per_item = rows_per_item};
    return plan->n_axes - 1;
}

int plan_projected_axis(struct plan_builder *builder, int input, int64_t k, int64_t n)
{
    struct plan_axis *axis = plan_grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis = (struct plan_axis){.input = input, .k = k, .n = n};
    return builder->plan->n_axes - 1;
}

int plan_window_axis(struct plan_builder *builder, int input, const struct plan_window *window)
{
    struct plan_axis *axis = plan_grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis = (struct plan_axis){.input = input, .window = *window};
    return builder->plan->n_axes - 1;
}

int plan_joined_axis(struct plan_builder *builder, int first, int second)
{
    struct plan_axis *axis = plan_grow(builder, &builder->plan->axes, &builder->plan->n_axes, sizeof *axis);
    if (!axis)
        return PLAN_NONE;
    *axis =
        (struct plan_axis){.input = builder->plan->axes[first].input, .joined = true, .first = first, .second = second};
    return builder->plan->n_axes - 1;
}

int plan_new_value(struct plan_builder *builder, int axis, int64_t columns)
{
    if (builder->failed)
        return PLAN_NONE;
    struct plan_value *value = plan_grow(builder, &builder->plan->values, &builder->plan->n_values, sizeof *value);
    if (!value)
        return PLAN_NONE;
    value->axis = axis;
    value->columns = columns;
    return builder->plan->n_values - 1;
}
