/* give: the last operations of a plan. They write results into the memory of the items. */
#ifndef ENGINE_CPU_GIVE_H
#define ENGINE_CPU_GIVE_H

#include "engine/cpu/run.h"

cpu_kernel cpu_give_hidden, cpu_give_pooled, cpu_give_output, cpu_give_image, cpu_give_tensor;
cpu_scratch cpu_give_pooled_scratch, cpu_give_output_scratch; /* scratch that all threads share */

#endif
