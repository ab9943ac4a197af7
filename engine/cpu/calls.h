/* The kernels on calls: items of several sequences that lie side by side. */
#ifndef ENGINE_CPU_CALLS_H
#define ENGINE_CPU_CALLS_H

#include "engine/cpu/operations.h"

cpu_operation cpu_project_call, cpu_attend_call;

int64_t cpu_attend_call_scratch(const struct plan *plan, const struct plan_step *step); /* floats, each thread's */

#endif
