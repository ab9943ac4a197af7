/* group_norm: groups of columns, each normalised over all rows of a sequence. */
#ifndef ENGINE_CPU_GROUP_NORM_H
#define ENGINE_CPU_GROUP_NORM_H

#include "engine/cpu/run.h"

cpu_kernel cpu_group_norm;
cpu_scratch cpu_group_norm_scratch;

#endif
