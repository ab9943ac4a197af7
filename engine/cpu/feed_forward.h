/* feed_forward: multiplies rows by one weight, and the result by a second weight. The result of the first product stays
 * in scratch memory. */
#ifndef ENGINE_CPU_FEED_FORWARD_H
#define ENGINE_CPU_FEED_FORWARD_H

#include "engine/cpu/run.h"

cpu_kernel cpu_feed_forward;
cpu_scratch cpu_feed_forward_scratch;

#endif
