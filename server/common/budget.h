/* budget: a bound on memory that many requests share. Any thread.
 *
 * A request takes its memory through a share, which knows how much that is. Whoever breaks a request off may end its
 * share at once, while the memory goes a moment later: to end a share twice is harmless. */
#ifndef SERVER_BUDGET_H
#define SERVER_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct budget {
    _Atomic int64_t used;
    int64_t limit;   /* bytes */
    int64_t reserve; /* of these, only for shares of at most `small` bytes: large ones never keep small ones out */
    int64_t small;

    /* Asked when a share finds no room; true: `bytes` have just been given back. NULL: nobody can. */
    bool (*make_room)(struct budget *budget, int64_t bytes);
    void *context; /* of make_room */
};

struct share {
    struct budget *budget;
    _Atomic int64_t bytes;
};

/* What a share may hold at most when nobody else holds anything. */
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

/* Takes `bytes` more; false: they are not there. */
static inline bool share_take(struct share *share, int64_t bytes)
{
    struct budget *budget = share->budget;
    int64_t held = atomic_load_explicit(&share->bytes, memory_order_relaxed);
    int64_t limit, used;
    if (bytes > budget->limit - held)
        return false;
    limit = held + bytes <= budget->small ? budget->limit : budget->limit - budget->reserve;
    for (int attempt = 0; attempt < 2; attempt++) {
        used = atomic_fetch_add_explicit(&budget->used, bytes, memory_order_relaxed) + bytes;
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

/* Gives back all of it; returns how much that was. */
static inline int64_t share_end(struct share *share)
{
    int64_t bytes = atomic_exchange_explicit(&share->bytes, 0, memory_order_relaxed);
    atomic_fetch_sub_explicit(&share->budget->used, bytes, memory_order_relaxed);
    return bytes;
}

#endif
