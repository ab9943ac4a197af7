/* local_attend: attention within windows of the sequence. */
#ifndef ENGINE_CPU_LOCAL_ATTEND_H
#define ENGINE_CPU_LOCAL_ATTEND_H

#include "engine/cpu/run.h"

cpu_kernel cpu_local_attend;
cpu_scratch cpu_local_attend_scratch;

#endif
