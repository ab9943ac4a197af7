/* convolve: convolutions along the sequence. */
#ifndef ENGINE_CPU_CONVOLVE_H
#define ENGINE_CPU_CONVOLVE_H

#include "engine/cpu/run.h"

cpu_kernel cpu_convolve_sequence;
cpu_scratch cpu_convolve_sequence_scratch;

#endif
