/* reduce: what becomes of several elements of a space: sums, maxima, a softmax. */
#ifndef ENGINE_CPU_REDUCE_H
#define ENGINE_CPU_REDUCE_H

#include "engine/cpu/run.h"

cpu_kernel cpu_reduce, cpu_softmax;

#endif
