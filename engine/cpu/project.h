/* project: projects sequences of n rows to k rows by a matrix E. OP_PROJECT_SEQUENCE and OP_PROJECT_CALL have different
 * layouts of the rows. */
#ifndef ENGINE_CPU_PROJECT_H
#define ENGINE_CPU_PROJECT_H

#include "engine/cpu/run.h"

cpu_kernel cpu_project_sequence, cpu_project_call;
cpu_scratch cpu_project_sequence_scratch, cpu_project_sequence_shared_scratch;

#endif
