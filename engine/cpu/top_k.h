/* top_k: the best of a row. */
#ifndef ENGINE_CPU_TOP_K_H
#define ENGINE_CPU_TOP_K_H

#include <stdint.h>

/* The best `count` (1 … columns) of `values`, best first; equal ones by column; a NaN is better than any number, as in
 * torch.topk. columns * log(count) comparisons. */
void top_k(int64_t columns, const float *values, int64_t count, int32_t *top_columns, float *top_values);

#endif
