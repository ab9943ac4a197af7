/* fusion: neighbouring steps of a plan that one kernel computes. Then the second step does not read the first step's
 * result from memory. The result is written only if another step reads it, too. Fused steps are found once, when a
 * model is prepared. Fusion does not change the plan, nor the places of its values. The table shows how often the rows
 * are read or written:
 *
 *                                              step by step    fused
 *     embed, add_positions or add_sinusoids             4        2
 *     embed, add_positions, layer_norm                  6        3, or 2 if only the norm reads the sum
 *     add, layer_norm                                   5        4, or 3 if only the norm reads the sum
 *     layer_norm, shift_tokens                          4        2
 *
 * Two projections of the same x along the sequence are one launch, too, if only their weights and results differ. With
 * a small batch, each of them alone has too few blocks to use a large device fully.
 *
 * A product that adds a residual is not fused with the layer norm after it. cuBLASLt adds the residual (its operand C)
 * while it writes the product. So the two steps together read the residual, write the sum, read the sum and write the
 * norm. A kernel that adds and normalises would save one reading of the sum. But then the product would have to be
 * written and read once more. */
#ifndef ENGINE_CUDA_FUSION_H
#define ENGINE_CUDA_FUSION_H

#include "engine/cuda/run.h"

/* Returns how each step of the plan is launched, by step. The caller frees the array. NULL if memory is lacking. */
struct cuda_launch *fusion_find(const struct plan *plan, enum dtype dtype);

#endif
