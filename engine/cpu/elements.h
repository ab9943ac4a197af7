/* elements: which values of a plan stand in the arena as bf16 where products are in bf16. */
#ifndef ENGINE_CPU_ELEMENTS_H
#define ENGINE_CPU_ELEMENTS_H

#include "engine/cpu/vector.h"

/* `elements` has room for all values; all are floats unless `bf16`. */
void cpu_choose_elements(const struct plan *plan, bool bf16, enum element *elements);

#endif
