/* operations: the CPU's table of kernels. It has one row for each operation of the plan. */
#ifndef ENGINE_CPU_OPERATIONS_H
#define ENGINE_CPU_OPERATIONS_H

#include "engine/cpu/run.h"

extern const struct cpu_operation cpu_operations[]; /* (OP_COUNT). The length is not given here, so that operations.c
                                                       can check that no last row is missing */

#endif
