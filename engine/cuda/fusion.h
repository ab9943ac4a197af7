/* fusion: neighbouring steps of a plan that one kernel computes. The first step's result is then not read again, and it
 * is written only if another step reads it, too. Fused steps are found once, when a model is prepared. The plan and the
 * places of its values stay the same.
 *
 *                                                 passes over the rows, step by step and fused
 *     embed, add_positions or add_sinusoids           4    2
 *     embed, add_positions, layer_norm                6    3, or 2 if the norm alone reads the sum
 *     add, layer_norm                                 5    4, or 3
 *     layer_norm, shift_tokens                        4    2
 *
 * Two projections of the same x along the sequence that differ in their weights alone are one launch, too. With a small
 * batch each of them has too few blocks for a large device.
 *
 * A product that adds a residual is not fused with the layer norm after it. cuBLASLt adds the residual while it writes
 * (its C), so product and norm read the residual, write the sum, read it and write the norm. A kernel that adds and
 * normalises would save one reading of the sum, but the product would have to be written and read for it. */
#ifndef ENGINE_CUDA_FUSION_H
#define ENGINE_CUDA_FUSION_H

#include "engine/cuda/run.h"

/* How each step of the plan is launched, by step. free is owed. NULL: out of memory. */
struct cuda_launch *fusion_find(const struct plan *plan, enum dtype dtype);

#endif
