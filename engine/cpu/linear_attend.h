/* linear_attend: attention through one (d, e) matrix for each head. Its cost grows linearly with the sequence. */
#ifndef ENGINE_CPU_LINEAR_ATTEND_H
#define ENGINE_CPU_LINEAR_ATTEND_H

#include "engine/cpu/run.h"

cpu_kernel cpu_linear_attend;
cpu_scratch cpu_linear_attend_scratch;

#endif
