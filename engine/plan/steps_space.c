/* steps_space: operations over a space. Each function appends a step and returns its value. */
#include "engine/plan/builder.h"

#include <assert.h>

static bool is_number(struct plan_source source)
{
    return source.value == PLAN_NONE && source.weight == PLAN_NONE;
}

/* Whether the source can be read as elements of this kind without a conversion. */
static bool has_elements(const struct plan_builder *builder, struct plan_source source, bool ids)
{
    bool has_ids = source.value != PLAN_NONE && plan_value_at(builder, source.value)->ids;
    return is_number(source) || has_ids == ids;
}

/* A step that reads x and z over the space. */
static struct plan_step step_over(enum operation operation, struct plan_source x, struct plan_source z, int space)
{
    struct plan_step step = plan_step_of(operation, x.value);
    step.z = z.value;
    step.x_weight = x.value == PLAN_NONE ? x.weight : PLAN_NONE;
    step.z_weight = z.value == PLAN_NONE ? z.weight : PLAN_NONE;
    step.space = space;
    return step;
}

static const struct plan_source none = {PLAN_NONE, PLAN_NONE, 0};

int plan_arrange(struct plan_builder *builder, struct plan_source x, int space, struct plan_target y)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(has_elements(builder, x, y.ids));
    struct plan_step step = step_over(OP_ARRANGE, x, none, space);
    step.arrange.x = x.number;
    return plan_append_step(builder, step, y);
}

int plan_combine(struct plan_builder *builder, enum plan_function function, int x, struct plan_source z, bool z_first,
                 int space, struct plan_target y)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(!y.ids);
    struct plan_step step = step_over(OP_COMBINE, (struct plan_source){x, PLAN_NONE, 0}, z, space);
    step.combine.function = function;
    step.combine.z_first = z_first;
    step.combine.z = z.number;
    return plan_append_step(builder, step, y);
}

int plan_select(struct plan_builder *builder, int condition, struct plan_source x, struct plan_source z, int space,
                struct plan_target y)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(!y.ids || (has_elements(builder, x, true) && has_elements(builder, z, true)));
    struct plan_step step = step_over(OP_SELECT, x, z, space);
    step.keys = condition;
    step.select.x = x.number;
    step.select.z = z.number;
    return plan_append_step(builder, step, y);
}

int plan_reduce(struct plan_builder *builder, enum plan_reduction reduction, int x, int space, int reduced,
                float parameter, struct plan_target y)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(!y.ids && reduced >= 1 && reduced <= builder->plan->spaces[space].rank);
    assert((reduction != REDUCTION_CUMULATE && reduction != REDUCTION_ARGMAX) || reduced == 1);
    struct plan_step step = step_over(OP_REDUCE, (struct plan_source){x, PLAN_NONE, 0}, none, space);
    step.reduce.reduction = reduction;
    step.reduce.reduced = reduced;
    step.reduce.parameter = parameter;
    return plan_append_step(builder, step, y);
}

int plan_softmax(struct plan_builder *builder, int x, int space, bool logarithm, struct plan_target y)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(!y.ids && !plan_value_at(builder, x)->ids && builder->plan->spaces[space].rank >= 1);
    struct plan_step step = step_over(OP_SOFTMAX, (struct plan_source){x, PLAN_NONE, 0}, none, space);
    step.softmax.logarithm = logarithm;
    return plan_append_step(builder, step, y);
}

int plan_multiply(struct plan_builder *builder, int x, struct plan_source z, float scale, int space,
                  struct plan_target y)
{
    if (builder->failed)
        return PLAN_NONE;
    assert(!y.ids && !plan_value_at(builder, x)->ids && builder->plan->spaces[space].rank >= 3);
    assert(!is_number(z) && has_elements(builder, z, false));
    struct plan_step step = step_over(OP_MULTIPLY, (struct plan_source){x, PLAN_NONE, 0}, z, space);
    step.multiply.scale = scale;
    return plan_append_step(builder, step, y);
}
