/* top_k: the largest elements of a row. */
#ifndef ENGINE_CPU_TOP_K_H
#define ENGINE_CPU_TOP_K_H

#include <stdint.h>

/* Writes the largest `count` of `values` (columns) and their columns, in descending order. `count` is in [1, columns].
 * Of equal values, the lower column comes first. A NaN counts as larger than any number, as in torch.topk. The cost is
 * columns * log(count) comparisons. */
void top_k(int64_t columns, const float *values, int64_t count, int32_t *top_columns, float *top_values);

#endif
