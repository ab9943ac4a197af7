/* space: operations over a space. A space lists which elements a step visits in each item (engine/plan/space.h). */
#ifndef ENGINE_CPU_SPACE_H
#define ENGINE_CPU_SPACE_H

#include "engine/cpu/run.h"

cpu_kernel cpu_arrange, cpu_combine, cpu_select;

#endif
