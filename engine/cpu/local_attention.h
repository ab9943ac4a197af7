/* Attention within windows of the sequence. */
#ifndef ENGINE_CPU_LOCAL_ATTENTION_H
#define ENGINE_CPU_LOCAL_ATTENTION_H

#include "engine/cpu/operations.h"

cpu_operation cpu_local_attend;

int64_t cpu_local_attend_scratch(const struct plan *plan, const struct plan_step *step); /* floats, each thread's */

#endif
