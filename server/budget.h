/* budget: a bound on memory that many requests share. Any thread. */
#ifndef SERVER_BUDGET_H
#define SERVER_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct budget {
    _Atomic int64_t used;
    int64_t limit; /* bytes */
};

/* Takes `bytes` out of what is left; false: that much is not. What was taken is given back with a negative number. */
static inline bool budget_take(struct budget *budget, int64_t bytes)
{
    int64_t used = atomic_fetch_add_explicit(&budget->used, bytes, memory_order_relaxed) + bytes;

    if (bytes <= 0 || used <= budget->limit)
        return true;
    atomic_fetch_sub_explicit(&budget->used, bytes, memory_order_relaxed);
    return false;
}

#endif
