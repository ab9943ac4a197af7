/* reduce: operations that combine several elements of a space: sums, maxima, the softmax. */
#ifndef ENGINE_CPU_REDUCE_H
#define ENGINE_CPU_REDUCE_H

#include "engine/cpu/run.h"

cpu_kernel cpu_reduce, cpu_softmax;

#endif
