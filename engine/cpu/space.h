/* space: operations that visit the elements of a space, for each item. */
#ifndef ENGINE_CPU_SPACE_H
#define ENGINE_CPU_SPACE_H

#include "engine/cpu/run.h"

cpu_kernel cpu_arrange, cpu_combine, cpu_select;

#endif
