/* multiply: products of two values, or of a value and a weight, over a space. */
#ifndef ENGINE_CPU_MULTIPLY_H
#define ENGINE_CPU_MULTIPLY_H

#include "engine/cpu/run.h"

cpu_kernel cpu_multiply;
cpu_scratch cpu_multiply_scratch;

#endif
