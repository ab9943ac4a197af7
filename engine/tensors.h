/* tensors: the inputs and outputs of a module. Their shapes are sizes of the plan (see plan.h), so they may differ
 * between items. */
#ifndef ENGINE_TENSORS_H
#define ENGINE_TENSORS_H

#include "engine/plan/padder.h"

/* Checks the shape of an item's input with LAYOUT_TENSOR: constant sizes, the bounds of free sizes, and that no size is
 * 0. On failure the message names the input, the dimension, the expected and the found size. */
int tensors_check_input(const struct plan *plan, const struct engine_item *item, int index, struct error *error);

/* Checks the sizes that follow from all inputs, each of which was checked before. Inputs that share a size must agree.
 * Each axis must have at least one row, and at most as many rows as the arena holds. */
int tensors_check_item(const struct plan *plan, const struct engine_item *item, struct error *error);

/* Checks the limits of the plan's sizes. Plans without tensors may also have such limits. */
int tensors_check_limits(const struct plan *plan, const struct engine_item *item, struct error *error);

/* Sets min_length, max_length and own_limit of an input with LAYOUT_TENSOR. They are those limits of dimension 0 that
 * do not depend on other dimensions. Leaves other inputs as they are. */
void tensors_limit_length(const struct plan *plan, struct model_input *input, int index);

/* Writes the shape of one of plan->outputs for the item. Returns the rank. */
int tensors_output_shape(const struct plan *plan, const struct engine_item *item, int output, int64_t *shape);

/* Writes the shape of one of plan->outputs, with -1 for sizes that depend on the item. Returns the rank. */
int tensors_free_shape(const struct plan *plan, int output, int64_t *shape);

#endif
