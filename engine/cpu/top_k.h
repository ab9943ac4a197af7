/* top_k: the best of a row. */
#ifndef ENGINE_CPU_TOP_K_H
#define ENGINE_CPU_TOP_K_H

#include <stdint.h>

/* Writes the best `count` of `values` (columns) and their columns, best first; 1 <= count <= columns. Of equal values
 * the first column is better. A NaN is better than any number, as in torch.topk. It takes columns * log(count)
 * comparisons. */
void top_k(int64_t columns, const float *values, int64_t count, int32_t *top_columns, float *top_values);

#endif
