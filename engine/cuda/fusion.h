/* fusion: neighbouring steps of a plan that one kernel does, so that what the first gives need not be read again, and
 * not be written where nobody else reads it. What is fused is found once, when a model is prepared: the plan, and the
 * places of its values, stay as they are.
 *
 *                                                 passes over the rows, one by one and fused
 *     embed, add_positions or add_sinusoids           4    2
 *     embed, add_positions, layer_norm                6    3, or 2 where nothing but the norm reads the sum
 *     add, layer_norm                                 5    4, or 3
 *     layer_norm, shift_tokens                        4    2
 *
 * Two projections of the same x along the sequence, which differ in nothing but weights, are a launch, too: each alone
 * has too few blocks for a large device where the batch is small.
 *
 * A product that adds a residual, with a layer norm behind it, is not among them: cuBLASLt adds the residual where it
 * writes (its C), so that the two read the residual, write the sum, read it and write the norm. A kernel that added and
 * normalised would save the one reading of the sum, and have the product written and read for it. */
#ifndef ENGINE_CUDA_FUSION_H
#define ENGINE_CUDA_FUSION_H

#include "engine/cuda/run.h"

/* By step of the plan; free is owed. NULL: no memory. */
struct cuda_launch *fusion_find(const struct plan *plan, enum cuda_dtype dtype);

#endif
