/* budget: a limit on the memory of all requests together. Any thread may call the functions.
 *
 * A share counts the bytes that one request has taken from the budget. If a thread aborts a request, it may end the
 * request's share at once, although the request's memory is freed a moment later. Ending a share twice is harmless. */
#ifndef SERVER_BUDGET_H
#define SERVER_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct budget {
    _Atomic int64_t used;
    int64_t limit;   /* maximum number of bytes of all shares together */
    int64_t reserve; /* number of bytes of the limit that only small shares may use, so that large shares cannot exhaust
                        the budget */
    int64_t small;   /* maximum number of bytes of a small share */

    /* Called when the budget has no room for `bytes` more bytes. The function may end other shares. It returns true if
     * they gave at least `bytes` back. NULL if shares cannot be ended. */
    bool (*make_room)(struct budget *budget, int64_t bytes);
    void *context; /* a pointer that the owner of the budget may use in make_room */
};

struct share {
    struct budget *budget;
    _Atomic int64_t bytes;
};

/* The largest possible size of a share in bytes, if there are no other shares. */
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

/* Takes `bytes` more bytes from the budget. Returns false if the budget has no room for them. */
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

/* Returns all bytes of the share to the budget. The return value is their number. */
static inline int64_t share_end(struct share *share)
{
    int64_t bytes = atomic_exchange_explicit(&share->bytes, 0, memory_order_relaxed);
    atomic_fetch_sub_explicit(&share->budget->used, bytes, memory_order_relaxed);
    return bytes;
}

#endif
