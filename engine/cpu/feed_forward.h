/* Rows through two weights, with what lies between in scratch. */
#ifndef ENGINE_CPU_FEED_FORWARD_H
#define ENGINE_CPU_FEED_FORWARD_H

#include "engine/cpu/operations.h"

cpu_operation cpu_feed_forward;

/* Floats, each thread's. */
int64_t cpu_feed_forward_scratch(const struct products *products, const struct plan *plan,
                                 const struct plan_step *step);

#endif
