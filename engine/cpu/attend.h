/* attend: softmax attention over keys that are there in whole, in OP_ATTEND's and OP_ATTEND_CALL's two layouts. */
#ifndef ENGINE_CPU_ATTEND_H
#define ENGINE_CPU_ATTEND_H

#include "engine/cpu/run.h"

cpu_kernel cpu_attend, cpu_attend_call;
cpu_scratch cpu_attend_scratch, cpu_attend_call_scratch;

#endif
