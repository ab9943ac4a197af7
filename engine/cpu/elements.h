/* elements: which values of a plan stand in the arena as bf16 where products are in bf16. */
#ifndef ENGINE_CPU_ELEMENTS_H
#define ENGINE_CPU_ELEMENTS_H

#include "engine/cpu/vector.h"

enum element cpu_value_element(const struct plan *plan, bool bf16, int value);

/* Whether linear tiles multiply by the weight in this step. */
bool cpu_tiles_weight(const struct plan_step *step, int weight);

/* Whether it is packed for a projection in bf16. */
bool cpu_projects_weight(const struct plan_step *step, bool bf16, int weight);

/* Of one of the step's weights, as it reads it. */
enum element cpu_weight_element(const struct plan_step *step, bool bf16, int weight);

/* `elements` has room for all values; all are floats unless `bf16`. */
void cpu_choose_elements(const struct plan *plan, bool bf16, enum element *elements);

#endif
