/* Attention whose cost is linear in the sequence: through a (features, features) matrix for each head. */
#ifndef ENGINE_CPU_LINEAR_ATTENTION_H
#define ENGINE_CPU_LINEAR_ATTENTION_H

#include "engine/cpu/operations.h"

cpu_operation cpu_linear_attend;

int64_t cpu_linear_attend_scratch(const struct plan *plan, const struct plan_step *step); /* floats, each thread's */

#endif
