/* elements: the values and weights of a plan that are bf16 if products are in bf16. */
#ifndef ENGINE_CPU_ELEMENTS_H
#define ENGINE_CPU_ELEMENTS_H

#include "engine/cpu/vector.h"

/* Of a value in the arena. ELEMENT_F32 unless `bf16`: products are in bf16. */
enum element cpu_value_element(const struct plan *plan, bool bf16, int value);

/* Whether the step reads the weight by linear tiles. */
bool cpu_tiles_weight(const struct plan_step *step, int weight);

/* Whether the step reads the weight as a projection packed in bf16. */
bool cpu_projects_weight(const struct plan_step *step, bool bf16, int weight);

/* Of a weight, as the step reads it. */
enum element cpu_weight_element(const struct plan_step *step, bool bf16, int weight);

/* The same for all values: `elements` has room for each. */
void cpu_choose_elements(const struct plan *plan, bool bf16, enum element *elements);

#endif
