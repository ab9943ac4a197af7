/* elements: which values and weights of a plan are stored as bf16. If the model's dtype is bf16, products read bf16, so
 * the values and weights that only products read are stored in this type. */
#ifndef ENGINE_CPU_ELEMENTS_H
#define ENGINE_CPU_ELEMENTS_H

#include "engine/cpu/vector.h"

/* The element type of a value in the arena. `bf16` tells whether products are in bf16. If it is false, every value is
 * ELEMENT_F32. */
enum element cpu_value_element(const struct plan *plan, bool bf16, int value);

/* Whether the step multiplies by the weight in tiles (products_linear_tile in products.h). */
bool cpu_tiles_weight(const struct plan_step *step, int weight);

/* Whether the step reads the weight as packed by products_take_projection. */
bool cpu_projects_weight(const struct plan_step *step, bool bf16, int weight);

/* The element type in which the step reads the weight. */
enum element cpu_weight_element(const struct plan_step *step, bool bf16, int weight);

/* Sets `elements` (n_values) to the element types of all values. */
void cpu_choose_elements(const struct plan *plan, bool bf16, enum element *elements);

#endif
