/* arithmetic: small functions of counts and sizes. */
#ifndef ENGINE_PLAN_ARITHMETIC_H
#define ENGINE_PLAN_ARITHMETIC_H

#include <stdint.h>

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The number of parts if `count` things are divided into parts of `each` things: count / each, rounded up. */
static inline int64_t parts_of(int64_t count, int64_t each)
{
    return (count + each - 1) / each;
}

static inline int64_t round_up(int64_t count, int64_t multiple)
{
    return parts_of(count, multiple) * multiple;
}

#endif
