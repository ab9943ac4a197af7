/* The kernels that write what items want into the items' own memory. */
#ifndef ENGINE_CPU_GIVE_H
#define ENGINE_CPU_GIVE_H

#include "engine/cpu/operations.h"

cpu_operation cpu_give_hidden, cpu_give_pooled, cpu_give_output, cpu_give_image;

int64_t cpu_give_output_scratch(const struct plan *plan, const struct plan_step *step);

#endif
