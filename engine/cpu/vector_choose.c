#include "engine/cpu/vector.h"
#include "engine/plan/arithmetic.h"

/* Rounds the depth up to whole words. A word consists of two neighbouring elements of a column. */
int64_t vector_packed_weight(int64_t columns, int64_t depth)
{
    return (depth + 1) / 2 * round_up(columns, VECTOR_WIDTH);
}

/* Columns are rounded up to whole vectors. */
int64_t vector_packed_keys(int64_t k, int64_t dim_head, int64_t dim_value)
{
    return dim_head * round_up(k, VECTOR_WIDTH) + k * round_up(dim_value, VECTOR_WIDTH);
}

/* The scratch contains scores, queries and output of a group of rows. */
int64_t vector_attend_scratch(int64_t dim_head, int64_t dim_value)
{
    return VECTOR_GROUP_ROWS * (VECTOR_TILE_KEYS + dim_head + round_up(dim_value, VECTOR_WIDTH));
}

static enum instruction_set best_set(void)
{
#ifndef VECTOR_BASELINE_ONLY
    /* Tests single features, because __builtin_cpu_supports of clang 14 does not know the levels x86-64-v3 and
     * x86-64-v4. Processors with the tested features also have the other features of the level. */
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
    bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
              __builtin_cpu_supports("avx512vl");
    if (v3)
        return v4 ? SET_AVX512 : SET_AVX2;
#endif
    return SET_BASELINE;
}

bool cpu_has_bf16(void)
{
#ifndef VECTOR_BASELINE_ONLY
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512bf16");
#else
    return false;
#endif
}

int instruction_set_choose(enum instruction_set wanted, enum instruction_set *set, struct error *error)
{
    enum instruction_set best = best_set();
    *set = wanted == SET_AUTO ? best : wanted;
    if (*set < best)
        return error_set(error, "kernels \"%s\" are not supported by this processor; its best kernels are %s",
                         instruction_set_name(wanted), instruction_set_name(best));
    return 0;
}

extern const struct vector_functions vector_baseline, vector_avx2, vector_avx512, vector_avx512_bf16;

const struct vector_functions *vector_functions_of(enum instruction_set set)
{
    static const struct vector_functions *const tables[SET_COUNT] = {
        [SET_BASELINE] = &vector_baseline,
#ifndef VECTOR_BASELINE_ONLY
        [SET_AVX2] = &vector_avx2,
        [SET_AVX512] = &vector_avx512,
#endif
    };
    return tables[set];
}

const struct vector_functions *vector_functions_of_bf16(void)
{
#ifndef VECTOR_BASELINE_ONLY
    return &vector_avx512_bf16;
#else
    return NULL;
#endif
}
