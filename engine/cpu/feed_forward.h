/* feed_forward: rows through two weights, with the hidden part between them in scratch. */
#ifndef ENGINE_CPU_FEED_FORWARD_H
#define ENGINE_CPU_FEED_FORWARD_H

#include "engine/cpu/run.h"

cpu_kernel cpu_feed_forward;
cpu_scratch cpu_feed_forward_scratch;

#endif
