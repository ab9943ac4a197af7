/* scope: a class as a leaf of a larger plan. The functions that a class calls (builder.h) turn to these while a scope
 * is open. */
#ifndef ENGINE_PLAN_SCOPE_H
#define ENGINE_PLAN_SCOPE_H

#include "engine/plan/builder.h"

/* The value that is bound to the input, or stands for it. `like`: the value whose rows it has, perhaps padded; then the
 * input is padded likewise. PLAN_NONE: the input is absent. */
int plan_bound_input(struct plan_builder *builder, const struct plan_input *input, int like);

/* An optional input that no value can be bound to. Returns PLAN_NONE. */
int plan_unbound_input(struct plan_builder *builder, const struct model_input *input);

/* Refuses a value whose axis is not that of a call's input. */
void plan_need_call(struct plan_builder *builder, const struct plan_axis *axis);

/* Requires a multiple of the rows that a bound value has with padding. */
void plan_bound_multiple(struct plan_builder *builder, int value, int64_t multiple);

/* The class's output: x, or a linear layer over it, without padding. */
void plan_give_bound(struct plan_builder *builder, int x, int weight, int bias);

/* The name of a class's tensor in the file: the scope's path, then `name`. Returns `full`. */
const char *plan_full_name(const struct plan_builder *builder, const char *name, char full[PLAN_NAME_BYTES]);

/* ---- require.c ---- */

/* The rows that all sequences of all items have on the axis; 0: they differ. */
int64_t plan_fixed_rows(struct plan_builder *builder, int axis);

/* Requires something of the rows of one sequence on the axis. An input's limits become narrower. Else the plan gets a
 * limit, whose size is set here. */
void plan_limit_rows(struct plan_builder *builder, int axis, struct plan_size_limit limit);

#endif
