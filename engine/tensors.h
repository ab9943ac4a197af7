/* tensors: the inputs and outputs of a module. Their shapes are sizes of the plan, so an item decides them. */
#ifndef ENGINE_TENSORS_H
#define ENGINE_TENSORS_H

#include "engine/plan/padder.h"

/* Checks the shape of an input of LAYOUT_TENSOR: constant sizes, bounds of free ones, none of 0. -1: `error` names the
 * input, the dimension, the expected size and the found one. */
int tensors_check_input(const struct plan *plan, const struct engine_item *item, int index, struct error *error);

/* Checks the sizes that follow from all inputs, each of which was checked alone. Inputs that share a size agree,
 * each axis has at least one row, and no axis has more than the arena. */
int tensors_check_item(const struct plan *plan, const struct engine_item *item, struct error *error);

/* Checks the limits of the plan's sizes. Plans without tensors have them, too. */
int tensors_check_limits(const struct plan *plan, const struct engine_item *item, struct error *error);

/* Sets min_length, max_length and own_limit of an input of LAYOUT_TENSOR to what the model takes in dimension 0, as far
 * as that follows from this dimension alone. Other inputs stay as they are. */
void tensors_limit_length(const struct plan *plan, struct model_input *input, int index);

/* The item's shape of one of plan->outputs. Returns the rank. */
int tensors_output_shape(const struct plan *plan, const struct engine_item *item, int output, int64_t *shape);

/* The shape of one of plan->outputs, with -1 for sizes that depend on the item. Returns the rank. */
int tensors_free_shape(const struct plan *plan, int output, int64_t *shape);

#endif
