/* project: sequences of n rows brought to k rows by E, in OP_PROJECT_SEQUENCE's and OP_PROJECT_CALL's two layouts. */
#ifndef ENGINE_CPU_PROJECT_H
#define ENGINE_CPU_PROJECT_H

#include "engine/cpu/run.h"

cpu_kernel cpu_project_sequence, cpu_project_call;
cpu_scratch cpu_project_sequence_scratch, cpu_project_sequence_shared_scratch;

#endif
