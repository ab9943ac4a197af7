/* attend: softmax attention over all keys of a sequence, in the layouts of OP_ATTEND and of OP_ATTEND_CALL. */
#ifndef ENGINE_CPU_ATTEND_H
#define ENGINE_CPU_ATTEND_H

#include "engine/cpu/run.h"

cpu_kernel cpu_attend, cpu_attend_call;
cpu_scratch cpu_attend_scratch, cpu_attend_call_scratch;

#endif
