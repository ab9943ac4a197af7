/* require: limits on rows and ids that parts of a plan require. */
#include "engine/plan/passes.h"
#include "engine/plan/scope.h"
#include "engine/plan/sizes.h"

/* Returns 0 if the result does not fit in int64_t. */
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

/* Narrows the limits of an input. The limits of inputs are checked before all other limits, and clients can query
 * them. */
static void narrow_input(struct plan_builder *builder, struct model_input *input, const struct plan_size_limit *limit)
{
    if (limit->most != INT64_MAX) {
        bool lower = !input->own_limit || limit->most < input->max_length;
        input->max_length = lower ? limit->most : input->max_length;
        input->own_limit = true;
    }
    if (limit->least > input->min_length)
        input->min_length = limit->least;
    int64_t multiple = least_common_multiple(input->multiple, limit->multiple);
    if (multiple == 0)
        plan_fail(
            builder,
            "%s must be a multiple of %lld, and for the rest of the model, the length of input \"%s\" must be one "
            "of %lld; expected a least common multiple of at most 64 bits",
            limit->what, (long long)limit->multiple, input->name, (long long)input->multiple);
    else if (input->own_limit && input->max_length / multiple * multiple < input->min_length)
        plan_fail(builder,
                  "%s: no length of input \"%s\" satisfies all limits of the model: at least %lld, at most %lld, a "
                  "multiple of %lld",
                  limit->what, input->name, (long long)input->min_length, (long long)input->max_length,
                  (long long)multiple);
    input->multiple = multiple;
}

/* The index of the size that is the number of rows of one sequence on the axis. PLAN_NONE if the plan has no such size.
 */
static int size_of_rows(struct plan_builder *builder, int axis)
{
    const struct plan_axis rows = builder->plan->axes[axis];
    if (rows.kind == AXIS_FIXED)
        return plan_size_constant(builder, rows.rows_per_item);
    if (rows.kind == AXIS_INPUT && rows.input_padding.rows == 0 && rows.input_padding.multiple == 0)
        return plan_size_free(builder, rows.input, 0, 1, INT32_MAX);
    if (rows.kind == AXIS_SIZED)
        return rows.sized.rows;
    if (rows.kind != AXIS_PADDED)
        return PLAN_NONE;
    if (rows.padded.by.rows)
        return plan_size_constant(builder, rows.padded.by.rows);
    int own = size_of_rows(builder, rows.padded.of);
    if (own == PLAN_NONE)
        return PLAN_NONE;
    int multiple = plan_size_constant(builder, rows.padded.by.multiple);
    int more = plan_size_add(builder, own, plan_size_constant(builder, rows.padded.by.multiple - 1));
    return plan_size_multiply(builder, plan_size_divide(builder, more, multiple), multiple);
}

/* Whether the limits of the input are also those of the axis. This is not the case for an image, because its length is
 * its height. */
static bool is_sequence(const struct plan *plan, const struct plan_axis *axis)
{
    enum input_layout layout = axis->kind == AXIS_INPUT ? plan->inputs[axis->input].input.layout : LAYOUT_TENSOR;
    return axis->kind == AXIS_INPUT && axis->input_padding.rows == 0 && axis->input_padding.multiple == 0 &&
           layout != LAYOUT_IMAGE && layout != LAYOUT_TENSOR;
}

void plan_limit_rows(struct plan_builder *builder, int axis, struct plan_size_limit limit)
{
    bool any = limit.least <= 1 && limit.most == INT64_MAX && limit.multiple == 1;
    if (builder->failed || any)
        return;
    struct plan *plan = builder->plan;
    if (is_sequence(plan, &plan->axes[axis])) {
        narrow_input(builder, &plan->inputs[plan->axes[axis].input].input, &limit);
        return;
    }
    limit.size = size_of_rows(builder, axis);
    if (!builder->failed && limit.size == PLAN_NONE)
        plan_fail(builder, "%s: expected the rows of an input, or a number of rows that is an expression of sizes",
                  limit.what);
    plan_limit_size(builder, limit);
}

/* The input whose ids the value contains, perhaps in other rows. NULL if the value contains no ids of an input. */
static struct model_input *input_of_ids(struct plan *plan, int value)
{
    for (int i = 0; i < plan->n_inputs; i++)
        if (plan->inputs[i].value == value)
            return &plan->inputs[i].input;
    int writer = plan_writer(plan, value);
    if (writer == PLAN_NONE)
        return NULL;
    const struct plan_step *step = &plan->steps[writer];
    bool copies = step->operation == OP_CUT_PADDING || step->operation == OP_RESHAPE ||
                  (step->operation == OP_PAD_ROWS && !step->pad_rows.ones);
    return copies ? input_of_ids(plan, step->x) : NULL;
}

void plan_limit_ids(struct plan_builder *builder, int ids, int64_t vocabulary, const char *what)
{
    if (builder->failed)
        return;
    struct model_input *input = input_of_ids(builder->plan, ids);
    if (!input || input->kind != INPUT_IDS)
        plan_fail(builder, "%s: expected ids that come unchanged from an input of the module", what);
    else if (input->vocabulary == 0 || vocabulary < input->vocabulary)
        input->vocabulary = vocabulary;
}
