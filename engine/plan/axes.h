/* axes: the axes and values of a plan that is being built. plan.h documents both. Each function returns an index. Two
 * calls of a function with the same arguments return the same index. Exceptions are plan_ragged_axis, plan_wanted_axis
 * and plan_new_value, which return a new index at each call. */
#ifndef ENGINE_PLAN_AXES_H
#define ENGINE_PLAN_AXES_H

#include "engine/plan/builder.h"

/* A new axis with the rows of the input, whose number differs between items. */
int plan_ragged_axis(struct plan_builder *builder, int input);

/* The axis with the rows of an input, without its padding. */
int plan_unpadded_axis(struct plan_builder *builder, int input);

int plan_fixed_axis(struct plan_builder *builder, int64_t rows_per_item);

/* The axis with k rows for every n rows of the input. */
int plan_projected_axis(struct plan_builder *builder, int input, int64_t k, int64_t n);

/* The axis of the pixels that result from a convolution of an input image with the window. */
int plan_window_axis(struct plan_builder *builder, int input, const struct plan_window *window);

/* The axis with the rows of axis `of`, padded as `by` says. */
int plan_padded_axis(struct plan_builder *builder, int of, struct plan_padding by);

/* The axis with each item's rows on the first axis, followed by its rows on the second axis. */
int plan_joined_axis(struct plan_builder *builder, int first, int second);

/* An axis with `sequences` sequences of `rows` rows each. Both are indices of sizes. If an item is one sequence, and
 * the axis of an input or a fixed axis has the same rows, the function returns that axis. */
int plan_sized_axis(struct plan_builder *builder, int rows, int sequences);

/* A new axis with those rows of axis `of`, an AXIS_INPUT, that an item requests, plus `reach` rows on either side of
 * each. */
int plan_wanted_axis(struct plan_builder *builder, int of, int64_t reach);

int plan_new_value(struct plan_builder *builder, int axis, int64_t columns);

#endif
