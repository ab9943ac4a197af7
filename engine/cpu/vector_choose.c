#include "engine/cpu/vector.h"

#define SCRATCH_LANES 16 /* the widest variant's */

static int64_t round_up(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* Keys transposed (dim_head, k), values (k, dim_head), scores of four rows; columns rounded up to whole vectors. */
int64_t vector_attend_scratch(int64_t k, int64_t dim_head)
{
    int64_t k_room = round_up(k, SCRATCH_LANES), dim_room = round_up(dim_head, SCRATCH_LANES);
    return dim_head * k_room + k * dim_room + 4 * k_room + 4 * dim_room;
}

const struct vector_functions *vector_choose(void)
{
#ifndef VECTOR_BASELINE_ONLY
    __builtin_cpu_init();
    if (__builtin_cpu_supports("x86-64-v4"))
        return &vector_avx512;
    if (__builtin_cpu_supports("x86-64-v3"))
        return &vector_avx2;
#endif
    return &vector_baseline;
}
