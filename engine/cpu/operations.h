/* operations: the CPU's table of kernels, one row for each operation of the plan. */
#ifndef ENGINE_CPU_OPERATIONS_H
#define ENGINE_CPU_OPERATIONS_H

#include "engine/cpu/run.h"

extern const struct cpu_operation cpu_operations[]; /* (OP_COUNT). A length here would hide a missing last row */

#endif
