/* shared_rows: several items of a batch may have the same source, such as one text with several targets. Then the rows
 * of the source are computed once, for the first of these items. The attention of the other items reads the keys and
 * values of the first item. */
#ifndef ENGINE_PLAN_SHARED_ROWS_H
#define ENGINE_PLAN_SHARED_ROWS_H

#include "engine/plan/plan.h"

/* Sets plan_axis.shared of all axes. The rows of a shared axis depend on one input. Steps on other axes read these rows
 * only as keys and values of an attention, or as the mask of such keys. */
void plan_mark_shared_axes(struct plan *plan);

/* Whether both items have the same source of a shared axis: the same memory, of the same length. Returns false for
 * items with a slot or with extras. */
bool plan_has_same_rows(const struct plan *plan, int axis, const struct engine_item *a, const struct engine_item *b);

#endif
