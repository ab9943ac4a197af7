/* The kernels that bring a sequence from n to k rows. */
#ifndef ENGINE_CPU_SEQUENCES_H
#define ENGINE_CPU_SEQUENCES_H

#include "engine/cpu/operations.h"

cpu_operation cpu_project_sequence, cpu_convolve_sequence;

int64_t cpu_project_scratch(const struct plan *plan, const struct plan_step *step); /* floats, shared */
int64_t cpu_project_thread_scratch(const struct products *products, const struct plan *plan,
                                   const struct plan_step *step);                    /* floats, each thread's */
int64_t cpu_convolve_scratch(const struct plan *plan, const struct plan_step *step); /* floats, each thread's */

#endif
