/* feed_forward: multiplies rows by two weights in turn. The rows between the two products stay in scratch memory. */
#ifndef ENGINE_CPU_FEED_FORWARD_H
#define ENGINE_CPU_FEED_FORWARD_H

#include "engine/cpu/run.h"

cpu_kernel cpu_feed_forward;
cpu_scratch cpu_feed_forward_scratch;

#endif
