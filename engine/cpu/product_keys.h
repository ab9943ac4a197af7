/* Memories of n * n values behind two times n keys. */
#ifndef ENGINE_CPU_PRODUCT_KEYS_H
#define ENGINE_CPU_PRODUCT_KEYS_H

#include "engine/cpu/operations.h"

cpu_operation cpu_retrieve;

int64_t cpu_retrieve_scratch(const struct plan *plan, const struct plan_step *step); /* floats, each thread's */

#endif
