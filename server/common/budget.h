/* budget: a bound on memory that many requests share. Any thread.
 *
 * A share counts the bytes that one request has taken from the budget. A thread that breaks a request off may end its
 * share at once, and the memory is freed a moment later. Ending a share twice is harmless. */
#ifndef SERVER_BUDGET_H
#define SERVER_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct budget {
    _Atomic int64_t used;
    int64_t limit;   /* bytes */
    int64_t reserve; /* the part of the limit for small shares alone, so that large shares cannot keep them out */
    int64_t small;   /* bytes; a share up to this size is small */

    /* Called when a share finds no room. True: `bytes` have just been given back. NULL: no room can be made. */
    bool (*make_room)(struct budget *budget, int64_t bytes);
    void *context; /* for make_room */
};

struct share {
    struct budget *budget;
    _Atomic int64_t bytes;
};

/* The largest size of a share, when there are no others. */
static inline int64_t budget_most(const struct budget *budget)
{
    int64_t most = budget->limit - budget->reserve;
    return most > budget->small ? most : budget->small < budget->limit ? budget->small : budget->limit;
}

static inline void share_give(struct share *share, int64_t bytes)
{
    atomic_fetch_sub_explicit(&share->bytes, bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&share->budget->used, bytes, memory_order_relaxed);
}

/* Takes `bytes` more. False: the budget has no room for them. */
static inline bool share_take(struct share *share, int64_t bytes)
{
    struct budget *budget = share->budget;
    int64_t held = atomic_load_explicit(&share->bytes, memory_order_relaxed);
    if (bytes > budget->limit - held)
        return false;
    int64_t limit = held + bytes <= budget->small ? budget->limit : budget->limit - budget->reserve;
    for (int attempt = 0; attempt < 2; attempt++) {
        int64_t used = atomic_fetch_add_explicit(&budget->used, bytes, memory_order_relaxed) + bytes;
        if (used <= limit) {
            atomic_fetch_add_explicit(&share->bytes, bytes, memory_order_relaxed);
            return true;
        }
        atomic_fetch_sub_explicit(&budget->used, bytes, memory_order_relaxed);
        if (!budget->make_room || !budget->make_room(budget, bytes))
            break;
    }
    return false;
}

/* Gives back all bytes of the share, and returns their number. */
static inline int64_t share_end(struct share *share)
{
    int64_t bytes = atomic_exchange_explicit(&share->bytes, 0, memory_order_relaxed);
    atomic_fetch_sub_explicit(&share->budget->used, bytes, memory_order_relaxed);
    return bytes;
}

#endif
