/* Limits of rows and of ids that a part of the plan has. */
#include "engine/plan/passes.h"
#include "engine/plan/scope.h"

#include <stdio.h>

/* 0: it does not fit into int64_t. */
static int64_t least_common_multiple(int64_t a, int64_t b)
{
    int64_t x = a, y = b, multiple;
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return __builtin_mul_overflow(a / x, b, &multiple) ? 0 : multiple;
}

/* An input's own limits are checked before anything else, and clients can ask for them. */
static void narrow_input(struct plan_builder *builder, struct model_input *input,
                         const struct plan_requirement *requirement)
{
    if (requirement->most != INT64_MAX) {
        bool lower = !input->own_limit || requirement->most < input->max_length;
        input->max_length = lower ? requirement->most : input->max_length;
        input->own_limit = true;
    }
    if (requirement->least > input->min_length)
        input->min_length = requirement->least;
    input->multiple = least_common_multiple(input->multiple, requirement->multiple);
    bool none = input->multiple == 0;
    if (!none && input->own_limit)
        none = input->max_length / input->multiple * input->multiple < input->min_length;
    if (none)
        plan_fail(builder, "%s: no number of rows of input \"%s\" suits it and the rest of the model",
                  requirement->what, input->name);
}

/* Whether the input's limits are counted in the rows of the axis. The length of an image is its height. */
static bool is_input(const struct plan *plan, const struct plan_axis *axis)
{
    return axis->kind == AXIS_INPUT && axis->padded.rows == 0 && axis->padded.multiple == 0 &&
           plan->inputs[axis->input].input.layout != LAYOUT_IMAGE;
}

void plan_require(struct plan_builder *builder, const struct plan_requirement *requirement)
{
    struct plan *plan = builder->plan;
    bool any = requirement->least <= 1 && requirement->most == INT64_MAX && requirement->multiple == 1;
    if (builder->failed || any)
        return;
    const struct plan_axis *axis = &plan->axes[requirement->axis];
    int64_t rows = plan_constant_rows(plan, requirement->axis);
    if (rows) {
        if (plan_check_requirement(requirement, rows, builder->error) != 0)
            builder->failed = true;
        return;
    }
    if (is_input(plan, axis)) {
        narrow_input(builder, &plan->inputs[axis->input].input, requirement);
        return;
    }
    if (axis->kind == AXIS_SIZED) {
        struct plan_size_limit limit = {.size = axis->sized.rows,
                                        .least = requirement->least,
                                        .most = requirement->most,
                                        .multiple = requirement->multiple};
        snprintf(limit.what, sizeof limit.what, "%.60s: %.80s", requirement->where, requirement->what);
        plan_limit_size(builder, limit);
        return;
    }
    struct plan_requirement *place =
        plan_grow(builder, &plan->requirements, &plan->n_requirements, sizeof *requirement);
    if (place)
        *place = *requirement;
}

/* The input whose ids the value holds, perhaps in other rows; NULL: the value is not an input's. */
static struct model_input *input_of_ids(struct plan *plan, int value)
{
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].value == value)
            return &plan->inputs[i].input;
    int writer = plan_writer(plan, value);
    if (writer == PLAN_NONE)
        return NULL;
    const struct plan_step *step = &plan->steps[writer];
    bool copies = step->operation == OP_CUT_PADDING || (step->operation == OP_PAD_ROWS && !step->pad_rows.ones);
    return copies ? input_of_ids(plan, step->x) : NULL;
}

void plan_limit_ids(struct plan_builder *builder, int ids, int64_t vocabulary, const char *what)
{
    if (builder->failed)
        return;
    struct model_input *input = input_of_ids(builder->plan, ids);
    if (!input || input->kind != INPUT_IDS)
        plan_fail(builder, "%s: expected the ids of an input", what);
    else if (input->vocabulary == 0 || vocabulary < input->vocabulary)
        input->vocabulary = vocabulary;
}
