/* A value that products alone read is rounded to bf16 by the step that writes it, once, instead of by each product: the
 * numbers are the same, and half as many bytes are written and read. */
#include "engine/cpu/elements.h"

static bool writes_bf16(const struct plan_step *step)
{
    return step->operation == OP_LAYER_NORM || step->operation == OP_LINEAR || step->operation == OP_ATTEND ||
           step->operation == OP_PROJECT_SEQUENCE;
}

/* Whether the step reads the value as a product's operand, and as nothing else. */
static bool multiplies_alone(const struct plan_step *step, int value)
{
    switch (step->operation) {
    case OP_LINEAR:
    case OP_FEED_FORWARD:
    case OP_PROJECT_SEQUENCE:
    case OP_ATTEND:
        return step->z != value;
    default:
        return false;
    }
}

static bool reads(const struct plan_step *step, int value)
{
    return step->x == value || step->z == value || step->keys == value || step->values == value;
}

enum element cpu_value_element(const struct plan *plan, bool bf16, int value)
{
    bool written = false;
    if (!bf16)
        return ELEMENT_F32;
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        if ((step->y == value && !writes_bf16(step)) || (reads(step, value) && !multiplies_alone(step, value)))
            return ELEMENT_F32;
        written |= step->y == value;
    }
    return written ? ELEMENT_BF16 : ELEMENT_F32; /* inputs are written by no step */
}

void cpu_choose_elements(const struct plan *plan, bool bf16, enum element *elements)
{
    for (int v = 0; v < plan->n_values; v++)
        elements[v] = cpu_value_element(plan, bf16, v);
}

bool cpu_tiles_weight(const struct plan_step *step, int weight)
{
    enum operation operation = step->operation;
    bool first = operation == OP_LINEAR || operation == OP_CONVOLVE_IMAGE || operation == OP_FEED_FORWARD ||
                 operation == OP_GIVE_OUTPUT;
    return step->second_weight == weight || (first && step->weight == weight);
}

enum element cpu_weight_element(const struct plan_step *step, bool bf16, int weight)
{
    bool projects = step->operation == OP_PROJECT_SEQUENCE && step->weight == weight;
    return bf16 && (projects || cpu_tiles_weight(step, weight)) ? ELEMENT_BF16 : ELEMENT_F32;
}
