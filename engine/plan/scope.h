/* scope: builds a class as a leaf, which is a part of a larger plan. The leaf binds values of the larger plan to the
 * inputs of the class (plan_leaf.inputs in builder.h). The scope of a leaf is open while the class builds its part of
 * the plan. During this time, the functions of builder.h that the class calls use the functions of this header. */
#ifndef ENGINE_PLAN_SCOPE_H
#define ENGINE_PLAN_SCOPE_H

#include "engine/plan/builder.h"

/* Returns the value that the leaf binds to the input. If the leaf binds no value, returns the value of the fallback.
 * The input must have the same rows as the value `like`. If `like` is padded, the result is padded in the same way.
 * Returns PLAN_NONE if the input is absent. */
int plan_bound_input(struct plan_builder *builder, const struct model_input *input, int like);

/* Declares an optional input without a value. Fails if the leaf binds a value to it. Exception: a value may be bound to
 * an INPUT_IGNORED that the class does not refuse. Returns PLAN_NONE. */
int plan_unbound_input(struct plan_builder *builder, const struct model_input *input);

/* Fails if the axis is not that of an input with LAYOUT_CALL. */
void plan_need_call(struct plan_builder *builder, const struct plan_axis *axis);

/* Requires that the rows of a bound value, padding included, are a multiple of `multiple`. */
void plan_bound_multiple(struct plan_builder *builder, int value, int64_t multiple);

/* Records the output of the class: x, or a linear layer over x, in both cases without padding. */
void plan_give_bound(struct plan_builder *builder, int x, int weight, int bias);

/* The name of a class's tensor in the file: the scope's path, then `name`. Returns `full`. */
const char *plan_full_name(const struct plan_builder *builder, const char *name, char full[PLAN_NAME_BYTES]);

/* ---- require.c ---- */

/* Limits the number of rows of each sequence on the axis. The caller leaves limit.size unset. If the axis is that of an
 * input, the limits of the input become narrower. Otherwise the limit is added to the plan. */
void plan_limit_rows(struct plan_builder *builder, int axis, struct plan_size_limit limit);

#endif
