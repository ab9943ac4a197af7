/* fusion: finds neighbouring steps of a plan that one kernel can compute. In a fused kernel, the second step does not
 * read the first step's result from memory. The kernel writes this result to memory only if another step reads it, too.
 * Fused steps are found once, when a model is prepared. Fusion changes neither the plan nor the places of its values in
 * memory. The table shows how often the rows are read or written:
 *
 *                                              step by step    fused
 *     embed, add_positions or add_sinusoids             4        2
 *     embed, add_positions, layer_norm                  6        3, or 2 if only the norm reads the sum
 *     add, layer_norm                                   5        4, or 3 if only the norm reads the sum
 *     layer_norm, shift_tokens                          4        2
 *
 * One launch also computes two projections along the sequence if they read the same x, and only their weights and
 * results differ. With a small batch, a single projection has too few blocks to use a large device fully.
 *
 * A product that adds a residual is not fused with the layer norm after it. cuBLASLt adds the residual (its operand C)
 * while it writes the product. So the two steps together read the residual, write the sum, read the sum and write the
 * norm. A kernel that adds and normalises would save one reading of the sum. However, the product would have to be
 * written and read once more. */
#ifndef ENGINE_CUDA_FUSION_H
#define ENGINE_CUDA_FUSION_H

#include "engine/cuda/run.h"

/* Returns how each step of the plan is launched: an array with one element for each step. The caller frees the array.
 * Returns NULL if memory is lacking. */
struct cuda_launch *fusion_find(const struct plan *plan, enum dtype dtype);

#endif
