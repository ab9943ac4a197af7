/* What the files that build a plan share: plan.c, plan_weights.c, plan_operations.c. Each of these functions records a
 * failure in the builder; PLAN_NONE or NULL is returned then. */
#ifndef ENGINE_PLAN_BUILDER_H
#define ENGINE_PLAN_BUILDER_H

#include "engine/plan.h"

/* Appends a zeroed element to one of the plan's arrays, whose room is always the next power of two. NULL: failed. */
void *plan_grow(struct plan_builder *builder, void *array, int *count, size_t size);

/* The rows that an input's items have without padding. */
int plan_unpadded_axis(struct plan_builder *builder, int input);

int plan_fixed_axis(struct plan_builder *builder, int64_t rows_per_item);

/* k rows for each n of the input's. */
int plan_projected_axis(struct plan_builder *builder, int input, int64_t k, int64_t n);

/* The pixels that the window makes of an input's image. */
int plan_window_axis(struct plan_builder *builder, int input, const struct plan_window *window);

/* The rows of two axes, one behind the other. */
int plan_joined_axis(struct plan_builder *builder, int first, int second);

int plan_new_value(struct plan_builder *builder, int axis, int64_t columns);

/* The weight with the columns beside it: vectors of as many elements as it has rows; PLAN_NONE stands for ones. */
int plan_widen(struct plan_builder *builder, int weight, const int *columns, int count);

static inline const struct plan_value *plan_value_at(const struct plan_builder *builder, int value)
{
    return &builder->plan->values[value];
}

static inline const struct plan_weight *plan_weight_at(const struct plan_builder *builder, int weight)
{
    return &builder->plan->weights[weight];
}

#endif
