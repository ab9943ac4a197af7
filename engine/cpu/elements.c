/* If products are in bf16, each product rounds its operands. If only products read a value, the step that writes the
 * value rounds it, and products need not. The results are the same, and only half as many bytes are written and
 * read. */
#include "engine/cpu/elements.h"
#include "engine/cpu/operations.h"

enum element cpu_value_element(const struct plan *plan, bool bf16, int value)
{
    bool written = false;
    if (!bf16)
        return ELEMENT_F32;
    for (int i = 0; i < plan->n_steps; i++) {
        const struct plan_step *step = &plan->steps[i];
        const struct cpu_operation *operation = &cpu_operations[step->operation];
        bool read = step->x == value || step->keys == value || step->values == value;
        if (step->z == value || (read && !operation->reads_bf16) || (step->y == value && !operation->writes_bf16))
            return ELEMENT_F32;
        written |= step->y == value;
    }
    return written ? ELEMENT_BF16 : ELEMENT_F32; /* an input is written by no step, and stays float */
}

void cpu_choose_elements(const struct plan *plan, bool bf16, enum element *elements)
{
    for (int v = 0; v < plan->n_values; v++)
        elements[v] = cpu_value_element(plan, bf16, v);
}

bool cpu_tiles_weight(const struct plan_step *step, int weight)
{
    return step->second_weight == weight ||
           (step->weight == weight && cpu_operations[step->operation].weight == WEIGHT_TILES);
}

bool cpu_projects_weight(const struct plan_step *step, bool bf16, int weight)
{
    return bf16 && step->weight == weight && cpu_operations[step->operation].weight == WEIGHT_PROJECTION;
}

enum element cpu_weight_element(const struct plan_step *step, bool bf16, int weight)
{
    bool packed = cpu_projects_weight(step, bf16, weight) || cpu_tiles_weight(step, weight);
    return bf16 && packed ? ELEMENT_BF16 : ELEMENT_F32;
}
