/* The passes that plan_finish runs over a built plan, in this order. */
#ifndef ENGINE_PLAN_PASSES_H
#define ENGINE_PLAN_PASSES_H

#include "engine/plan.h"

/* Makes an activation and then an addition that follow a linear step its epilogues. */
void plan_fuse(struct plan *plan);

/* Gives every value its lifetime and its place in the arena, for the largest batch. -1: the sizes overflow, or memory
 * ran out; `error` says so. */
int plan_place_values(struct plan *plan, int64_t max_rows, int64_t max_items, struct error *error);

#endif
